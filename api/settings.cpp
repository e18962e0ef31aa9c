// Reads the options of a Context and the environment variables behind them.
#include <api/settings.h>
#include <core/enum_words.h>
#include <core/text.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <runtime/disk_cache.h>
#include <runtime/env.h>
#include <runtime/pack.h>
#include <runtime/process.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <system_error>
#include <utility>

namespace fa2 {
namespace {

using Violations = std::vector<Violation>;

void append(Violations& found, Violations more) {
  std::ranges::move(more, std::back_inserter(found));
}

bool is_overruled(std::string_view name, const ContextOptions& options) {
  return (name == "FA2_TUNE" && options.tune) || (name == "FA2_TUNE_BUDGET_MS" && options.tune_budget_ms) ||
         (name == "FA2_CONFIG" && options.config) || (name == "FA2_JIT" && options.jit);
}

/// Checks all options and variables, so that one error lists every violation.
void require_valid(const ContextOptions& options, const Environment& environment) {
  constexpr std::int64_t kHour = 3600 * 1000;
  Violations found;
  for (const EnvVariable& variable : fa2::environment()) {
    if (is_overruled(variable.name, options)) continue;
    if (const auto value = environment(variable.name))
      append(found, violations_of_variable(variable.name, *value));
  }
  if (options.tune_budget_ms && (*options.tune_budget_ms < 0 || *options.tune_budget_ms > kHour)) {
    found.push_back({"tune_budget_ms", std::to_string(*options.tune_budget_ms), "must be in 0..3600000"});
  }
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

/// Rejects a pinned kernel that no plan chooses, because the plan would ignore the pin.
void require_pinnable(const Settings& settings) {
  if (!settings.pinned) return;
  const KernelId kernel = settings.pinned->kernel;
  if (is_enumerator(kernel) && is_chosen(kind_of(kernel).pass)) return;
  std::string names;
  for (const KernelKind* kind : kernel_kinds()) {
    if (is_chosen(kind->pass)) names += fmt::format("{}{}", names.empty() ? "" : ", ", kind->name());
  }
  const std::string value = is_enumerator(kernel) ? std::string(word_of(kernel))
                                                  : std::to_string(static_cast<std::int32_t>(kernel));
  throw InvalidRequest({{settings.pinned_by + ": kernel", value,
                         fmt::format("must be one of {}: other kernels have no config to choose", names)}});
}

/// Returns the value of a checked variable, or `usual` if it is not set.
template <class Enum>
Enum enumerator_of(const Environment& environment, std::string_view name, Enum usual) {
  return fa2::enumerator_of<Enum>(environment(name).value_or("")).value_or(usual);
}

/// Returns whether a launcher has started this process as one of several ranks. A rank does not measure beside the program: others
/// would follow other records, and a kernel that is loaded while collectives wait for it can stop them all.
bool is_rank(const Environment& environment) {
  return std::ranges::any_of(rank_counts(), [&](std::string_view name) {
    const std::string ranks = environment(name).value_or("1");
    return ranks != "1" && ranks != "0";
  });
}

Violations doubts_of(const Settings& settings, const char* path_name) {
  std::error_code error;
  Violations found;
  for (const auto& path : settings.read_only_caches) {
    const bool is_there = is_pack_name(path) ? std::filesystem::exists(path, error)
                                             : std::filesystem::is_directory(path, error);
    if (is_there) continue;
    found.push_back({path_name, in_quotes(path.native()),
                     "must name directories and packs (.fa2pack) that are there; this one is not read"});
  }
  const auto& own = settings.cache_dir;
  if (own && std::filesystem::exists(*own, error) && !std::filesystem::is_directory(*own, error)) {
    found.push_back({"the cache directory (FA2_CACHE_DIR)", in_quotes(own->native()),
                     "must be a directory; kernels are not cached on disk"});
  }
  return found;
}

}  // namespace

Settings settings_of(const ContextOptions& options, const Environment& environment) {
  require_valid(options, environment);
  Settings settings;
  settings.cache_dir = options.cache_dir ? std::filesystem::path(*options.cache_dir) : default_cache_dir();
  const std::vector<std::string> read_only = options.read_only_caches
                                                 ? *options.read_only_caches
                                                 : split_paths(environment("FA2_CACHE_PATH").value_or(""));
  settings.read_only_caches.assign(read_only.begin(), read_only.end());
  settings.tune = options.tune.value_or(enumerator_of(environment, "FA2_TUNE", TuneMode::learn));
  if (settings.tune == TuneMode::learn) {
    settings.records_until = utc_text(process_start());
    if (is_rank(environment)) settings.tune = TuneMode::stored;
  }
  const std::int64_t budget_ms = options.tune_budget_ms
                                     ? *options.tune_budget_ms
                                     : std::stoll(environment("FA2_TUNE_BUDGET_MS").value_or("3000"));
  settings.tune_budget_seconds = static_cast<double>(budget_ms) * 1e-3;
  settings.pinned = options.config;
  settings.pinned_by = "ContextOptions::config";
  if (const auto text = environment("FA2_CONFIG"); text && !options.config) {
    settings.pinned = parse_config(*text);
    settings.pinned_by = "FA2_CONFIG";
  }
  require_pinnable(settings);
  settings.jit = options.jit.value_or(enumerator_of(environment, "FA2_JIT", JitMode::on));
  settings.check = environment("FA2_CHECK") == "1";
  settings.request_log = environment("FA2_LOG_REQUESTS");
  settings.doubts = doubts_of(settings, options.read_only_caches ? "read_only_caches" : "FA2_CACHE_PATH");
  return settings;
}

Settings settings_of(const ContextOptions& options) {
  Settings settings = settings_of(options, [](std::string_view name) { return env(name); });
  append(settings.doubts, unknown_variables());
  return settings;
}

std::vector<std::string> split_paths(std::string_view text) {
  std::vector<std::string> paths;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(':'), text.size());
    if (end > 0) paths.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return paths;
}

}  // namespace fa2
