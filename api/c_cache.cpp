// Implements fa2/c_cache.h on the disk cache.
#include <api/c_guard.h>
#include <api/c_structs.h>
#include <api/cache_report.h>
#include <fa2/c_cache.h>

#include <nlohmann/json.hpp>
#include <string>

namespace {

using namespace fa2;

std::filesystem::path directory_of(const char* directory) {
  return cache_directory(directory != nullptr ? directory : "");
}

/// Returns the text. Replaces bytes that are not UTF-8, which paths may hold.
std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

fa2_status fa2_cache_list(const char* directory, int32_t verify, char** json) {
  return guarded([&] {
    required(json, "json") = nullptr;
    const std::filesystem::path place = directory_of(directory);
    *json = allocate_copy(text_of(document_of(place, cache_entries(place, verify != 0))));
  });
}

fa2_status fa2_cache_prune(const char* directory, int64_t max_bytes, char** json) {
  return guarded([&] {
    required(json, "json") = nullptr;
    const std::filesystem::path place = directory_of(directory);
    const DiskCache cache(place, DiskCache::Access::read_write);
    const std::uint64_t most = max_bytes < 0 ? max_cache_bytes() : static_cast<std::uint64_t>(max_bytes);
    const DiskCache::Pruned pruned = cache.prune(most);
    *json = allocate_copy(text_of(document_of(place, pruned, cache.entries())));
  });
}
