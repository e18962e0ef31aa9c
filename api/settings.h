// The settings of a Context: each comes from ContextOptions, else the environment, else the default.
#pragma once

#include <autotune/config_choice.h>
#include <fa2/attention.h>
#include <fa2/errors.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

struct Settings : ChoiceSettings {
  std::optional<std::filesystem::path> cache_dir;  ///< nullopt: keep kernels and records in memory only
  std::vector<std::filesystem::path> read_only_caches;
  double tune_budget_seconds = 3.0;
  /// The latest date of records that are followed from the cache directory; empty: any. Ranks that start together agree by it.
  std::string records_until;
  std::optional<std::filesystem::path> request_log;  ///< FA2_LOG_REQUESTS: where new requests are appended
  bool check = false;             ///< FA2_CHECK: whether to check tables of sequences before each launch
  std::vector<Violation> doubts;  ///< warnings about harmless mistakes, such as directories that do not exist
};

/// Reads a variable: env(), or a test's own table.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

/// Returns the settings. @throws InvalidRequest with every wrong value of an option or a variable, even of variables that a context
/// does not read. Ignores variables that an option overrules.
Settings settings_of(const ContextOptions& options, const Environment& environment);
/// Like settings_of(), with the process's environment. Its doubts also name variables that fa2 does not know.
Settings settings_of(const ContextOptions& options);

/// Returns the directories of a list separated by ':', without empty ones.
std::vector<std::string> split_paths(std::string_view text);

}  // namespace fa2
