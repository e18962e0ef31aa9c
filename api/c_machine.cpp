// Implements fa2/c_machine.h on the runtime.
#include <api/c_guard.h>
#include <api/c_structs.h>
#include <api/settings.h>
#include <fa2/attention.h>
#include <fa2/c_machine.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/compiler.h>
#include <runtime/device.h>
#include <runtime/interrupt.h>
#include <runtime/nvrtc.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace fa2;
using Json = nlohmann::ordered_json;

/// Returns facts(), or an object with "error" if it throws.
template <class Facts>
Json facts_or_error(const Facts& facts) {
  try {
    return facts();
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

Json facts_of_nvrtc() {
  const NvrtcVersion version = nvrtc_version();
  return {{"version", fmt::format("{}.{}", version.major, version.minor)}, {"path", version.path}};
}

Json facts_of_gpu(int ordinal) {
  const Device& gpu = device(ordinal);
  return {{"ordinal", ordinal}, {"name", gpu.name}, {"arch", gpu.arch.name}, {"sm_count", gpu.sm_count}};
}

Json facts_of_cache() {
  const Settings settings = settings_of({});
  Json read_only = Json::array();
  for (const auto& directory : settings.read_only_caches) read_only.push_back(directory.string());
  return {{"directory", settings.cache_dir ? Json(settings.cache_dir->string()) : Json(nullptr)},
          {"read_only", std::move(read_only)}};
}

Json facts_of_machine() {
  Json gpus = Json::array();
  for (int i = 0; i < device_count(); ++i) gpus.push_back(facts_or_error([&] { return facts_of_gpu(i); }));
  return {{"version", version()},
          {"driver", driver_version()},
          {"gpus", std::move(gpus)},
          {"nvrtc", facts_or_error(facts_of_nvrtc)},
          {"cache", facts_or_error(facts_of_cache)}};
}

}  // namespace

fa2_status fa2_set_nvrtc_search(const char* const* directories, size_t count) {
  return guarded([&] {
    if (count > 0) required(directories, "directories");
    std::vector<std::string> paths;
    for (size_t i = 0; i < count; ++i)
      paths.emplace_back(&required(directories[i], fmt::format("directories[{}]", i)));
    set_nvrtc_search(std::move(paths));
  });
}

fa2_status fa2_set_interrupt(int32_t (*poll)(void* data), void* data) {
  return guarded([&] { set_interrupt(poll, data); });
}

fa2_status fa2_stream_is_capturing(void* stream, int32_t* capturing) {
  return guarded([&] {
    required(capturing, "capturing") = 0;
    *capturing = is_capturing(static_cast<Stream>(stream)) ? 1 : 0;
  });
}

fa2_status fa2_machine(char** json) {
  return guarded([&] {
    required(json, "json") = nullptr;
    *json = allocate_copy(facts_of_machine().dump());
  });
}
