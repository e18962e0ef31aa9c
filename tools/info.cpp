// fa2 info: the versions, GPUs, caches and settings on this machine.
#include <api/settings.h>
#include <autotune/tuning_store.h>
#include <core/arch.h>
#include <core/text.h>
#include <fa2/attention.h>
#include <fmt/format.h>
#include <runtime/compiler.h>
#include <runtime/device.h>
#include <runtime/disk_cache.h>
#include <runtime/env.h>
#include <runtime/trust.h>
#include <tools/table.h>
#include <tools/verb.h>

#include <optional>
#include <string_view>

namespace fa2::tools {
namespace {

constexpr std::size_t kMostShown = 200;  // of a variable's value

Json nvrtc_facts() {
  try {
    const NvrtcVersion nvrtc = nvrtc_version();
    return {{"version", fmt::format("{}.{}", nvrtc.major, nvrtc.minor)}, {"path", nvrtc.path}};
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

Json gpu_facts(int ordinal) {
  try {
    const Device& gpu = device(ordinal);
    return {{"ordinal", ordinal},
            {"name", gpu.name},
            {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
            {"arch", gpu.arch.name},
            {"sm_count", gpu.sm_count},
            {"memory_bytes", gpu.memory_bytes}};
  } catch (const Error& error) {
    return {{"ordinal", ordinal}, {"error", error.what()}};
  }
}

/// Returns why there is no GPU; empty if there is one.
std::string no_gpu() {
  if (device_count() > 0) return {};
  try {
    device(0);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// Returns what a cache directory holds that no program uses, each with a remedy.
Json not_used_parts(const std::vector<CacheEntry>& entries, bool is_read_only) {
  Json refused = Json::array();
  bool has_host_code = false;
  for (const CacheEntry& entry : entries) {
    if (entry.untrusted) refused.push_back(entry.damage);
    has_host_code |= is_read_only && is_forbidden(entry.binary.arch);
  }
  if (has_host_code) refused.push_back(kForbidden);
  return refused;
}

/// Returns what a store holds in an older format, which is not used, or why it cannot be opened.
Json outdated_parts(const KernelStore& store, const TuningStore& records) {
  Json outdated = Json::array();
  const auto* directory = dynamic_cast<const DiskCache*>(&store);
  if (directory == nullptr && store.description() != store.path().native())
    outdated.push_back(store.description());
  if (const auto folder = directory != nullptr ? directory->outdated_folder() : std::nullopt)
    outdated.push_back(fmt::format("{}: kernels of an older format; remove the folder", folder->string()));
  if (records.outdated() > 0)
    outdated.push_back(fmt::format("{} tuning records of an older format", records.outdated()));
  return outdated;
}

Json cache_facts(const std::filesystem::path& place, bool is_read_only) {
  const auto store = open_store(place);
  const std::vector<CacheEntry> entries = store->entries();
  std::uint64_t bytes = 0;
  std::size_t damaged = 0, untrusted = 0;
  for (const CacheEntry& entry : entries) {
    bytes += entry.file_bytes;
    untrusted += entry.untrusted;
    damaged += !entry.untrusted && !entry.damage.empty();
  }
  const TuningStore records("", {RecordText(*store)});
  Json not_used = not_used_parts(entries, is_read_only);
  for (Json& part : outdated_parts(*store, records)) not_used.push_back(std::move(part));
  return {{"path", place.string()},
          {"read_only", is_read_only},
          {"entries", entries.size() - untrusted},
          {"damaged", damaged},
          {"not_used", std::move(not_used)},
          {"bytes", bytes},
          {"tuning_store", (place / kTuningFile).string()},
          {"tuning_records", records.records().size()}};
}

/// Reads only the variables that name directories, because others may be wrong.
Settings directories() {
  return settings_of(
      {}, [](std::string_view name) { return name == "FA2_CACHE_PATH" ? env(name) : std::nullopt; });
}

/// Returns the caches in search order.
Json all_caches(const Settings& settings) {
  Json caches = Json::array();
  for (const auto& dir : settings.read_only_caches) caches.push_back(cache_facts(dir, true));
  if (settings.cache_dir) caches.push_back(cache_facts(*settings.cache_dir, false));
  return caches;
}

std::string text_of(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& v : violations) text += (text.empty() ? "" : "\n") + to_string(v);
  return text;
}

Json environment_facts() {
  Json variables = Json::array();
  for (const EnvVariable& variable : environment()) {
    const std::optional<std::string> value = env(variable.name);
    const auto wrong = value ? violations_of_variable(variable.name, *value) : std::vector<Violation>{};
    variables.push_back({{"name", variable.name},
                         {"value", value ? Json(*value) : Json(nullptr)},
                         {"default", variable.default_value},
                         {"values", variable.values},
                         {"meaning", variable.meaning},
                         {"error", text_of(wrong)}});
  }
  return variables;
}

/// Returns the settings that no Context accepts; empty if all are valid.
std::string wrong_settings() {
  try {
    settings_of({});
    return {};
  } catch (const InvalidRequest& error) {
    return error.what();
  }
}

/// Returns warnings about settings that are probably mistakes.
std::string doubtful_settings(const Settings& settings) {
  std::vector<Violation> doubts = unknown_variables();
  doubts.insert(doubts.begin(), settings.doubts.begin(), settings.doubts.end());
  return text_of(doubts);
}

Json facts() {
  const Settings settings = directories();
  Json gpus = Json::array(), archs = Json::array();
  for (int i = 0; i < device_count(); ++i) gpus.push_back(gpu_facts(i));
  for (const Arch& arch : known_archs()) archs.push_back(arch.name);
  return {{"version", version()},
          {"driver", driver_version()},
          {"nvrtc", nvrtc_facts()},
          {"gpus", std::move(gpus)},
          {"no_gpu", no_gpu()},
          {"archs", std::move(archs)},
          {"caches", all_caches(settings)},
          {"environment", environment_facts()},
          {"settings_error", wrong_settings()},
          {"settings_warning", doubtful_settings(settings)}};
}

std::string word(const Json& json, const char* name) {
  return json.at(name).get<std::string>();
}

std::string gpu_line(const Json& gpu) {
  if (gpu.contains("error")) return word(gpu, "error");
  return fmt::format("{}, compute capability {} ({}), {} SMs, {}", word(gpu, "name"),
                     word(gpu, "compute_capability"), word(gpu, "arch"), gpu.at("sm_count").get<int>(),
                     bytes_text(gpu.at("memory_bytes").get<std::uint64_t>()));
}

std::string cache_line(const Json& cache) {
  const std::string records = fmt::format(
      "{} tuning records in {}", cache.at("tuning_records").get<std::size_t>(), word(cache, "tuning_store"));
  const std::size_t damaged = cache.at("damaged").get<std::size_t>();
  std::string refused;
  for (const Json& part : cache.at("not_used")) refused += "; not used: " + part.get<std::string>();
  return fmt::format("{}{}: {} kernels, {}{}; {}{}", word(cache, "path"),
                     cache.at("read_only").get<bool>() ? " (read-only)" : "",
                     cache.at("entries").get<std::size_t>(),
                     bytes_text(cache.at("bytes").get<std::uint64_t>()),
                     damaged > 0 ? fmt::format(", {} damaged", damaged) : "", records, refused);
}

void print_facts(const Json& facts) {
  const Json& nvrtc = facts.at("nvrtc");
  const std::string driver = word(facts, "driver");
  Lines lines = {{"fa2", word(facts, "version")},
                 {"driver", driver.empty() ? "none" : "CUDA " + driver},
                 {"nvrtc", nvrtc.contains("error") ? word(nvrtc, "error")
                                                   : word(nvrtc, "version") + ", " + word(nvrtc, "path")}};
  for (const Json& gpu : facts.at("gpus")) {
    lines.emplace_back(fmt::format("cuda:{}", gpu.at("ordinal").get<int>()), gpu_line(gpu));
  }
  if (!word(facts, "no_gpu").empty()) lines.emplace_back("gpu", "none: " + word(facts, "no_gpu"));
  lines.emplace_back("kernels for", known_arch_names());
  for (const Json& cache : facts.at("caches")) lines.emplace_back("cache", cache_line(cache));
  lines.emplace_back("settings", word(facts, "settings_error"));
  lines.emplace_back("warning", word(facts, "settings_warning"));
  print(lines);
  fmt::print("\n");

  Table table({{"variable"}, {"value"}, detail("default"), detail("takes"), detail("meaning")});
  for (const Json& variable : facts.at("environment")) {
    const Json& value = variable.at("value");
    const std::string mark = word(variable, "error").empty() ? "" : " (wrong)";
    table.add({word(variable, "name"),
               value.is_null() ? "-" : printable(value.get<std::string>(), kMostShown) + mark,
               word(variable, "default"), word(variable, "values"), word(variable, "meaning")});
  }
  print(table);
}

}  // namespace

Verb add_info(CLI::App& app) {
  CLI::App* verb = add_verb(app, "info", "Show versions, GPUs, caches and settings", "fa2 info");
  return {verb, [verb] {
            const Json found = facts();
            wants_json(*verb) ? print_json(found) : print_facts(found);
            return kOk;
          }};
}

}  // namespace fa2::tools
