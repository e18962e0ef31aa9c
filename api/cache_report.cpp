// JSON of cache directories.
#include <api/cache_report.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/kernel_source.h>
#include <runtime/pack.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

namespace fa2 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json json_of(const CacheEntry& entry) {
  return {{"path", entry.path.string()},
          {"key", entry.binary.key},
          {"arch", entry.binary.arch},
          {"spec", entry.binary.spec},
          {"file_bytes", entry.file_bytes},
          {"compile_ms", entry.binary.compile_ms},
          {"compiler", entry.binary.compiler},
          {"last_used", time_text(entry.last_used)},
          {"refused", entry.binary.refused},
          {"library", entry.binary.library},
          {"damage", entry.damage},
          {"outdated", entry.damage.empty() ? why_outdated(entry.binary) : ""},
          {"untrusted", entry.untrusted}};
}

}  // namespace

fs::path cache_directory(const std::string& name) {
  if (name.empty()) {
    if (const auto dir = default_cache_dir()) return *dir;
    throw Error(ErrorCode::cache,
                "none of FA2_CACHE_DIR, XDG_CACHE_HOME and HOME is set; name a directory by --dir");
  }
  std::error_code error;
  if (fs::is_directory(name, error) || (is_pack_name(name) && fs::exists(name, error))) return name;
  throw Error(ErrorCode::cache, fmt::format("{} is no directory and no pack (.fa2pack)", name));
}

std::vector<CacheEntry> cache_entries(const fs::path& directory, bool verify) {
  std::vector<CacheEntry> entries = is_pack_name(directory)
                                        ? Pack::open(directory)->entries(verify)
                                        : DiskCache(directory, DiskCache::Access::read_only).entries(verify);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const CacheEntry& a, const CacheEntry& b) { return a.last_used > b.last_used; });
  return entries;
}

std::string why_outdated(const KernelBinary& binary) {
  const Arch* arch = find_arch(binary.arch);
  if (arch == nullptr) return fmt::format("fa2 {} has no arch {}", version(), binary.arch);
  const std::size_t config = binary.spec.find("kernel=");
  try {
    if (config == std::string::npos || binary.templates.empty())
      return "a version of fa2 made it that did not say which";
    if (template_digest(parse_config(binary.spec.substr(config)), *arch) == binary.templates) return {};
  } catch (const InvalidRequest&) {
    return fmt::format("fa2 {} made it, whose kernels or their fields fa2 {} does not have", binary.library,
                       version());
  }
  return fmt::format("fa2 {} made it from other templates than those of this fa2 {}", binary.library,
                     version());
}

std::uint64_t bytes_of(const std::vector<CacheEntry>& entries) {
  std::uint64_t bytes = 0;
  for (const CacheEntry& entry : entries) bytes += entry.file_bytes;
  return bytes;
}

std::string time_text(std::int64_t seconds_since_epoch) {
  const std::time_t time = seconds_since_epoch;
  std::tm parts{};
  char text[32] = "";
  if (gmtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json document_of(const fs::path& directory, const std::vector<CacheEntry>& entries) {
  const auto damaged = std::count_if(entries.begin(), entries.end(),
                                     [](const CacheEntry& entry) { return !entry.damage.empty(); });
  Json json = {{"directory", directory.string()},
               {"bytes", bytes_of(entries)},
               {"entries", Json::array()},
               {"damaged", damaged}};
  for (const CacheEntry& entry : entries) json["entries"].push_back(json_of(entry));
  return json;
}

Json document_of(const fs::path& directory, const DiskCache::Pruned& pruned,
                 const std::vector<CacheEntry>& rest) {
  return {{"directory", directory.string()},
          {"removed_files", pruned.files},
          {"removed_bytes", pruned.bytes},
          {"entries", rest.size()},
          {"bytes", bytes_of(rest)}};
}

}  // namespace fa2
