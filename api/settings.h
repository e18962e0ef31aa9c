// ContextOptions with everything decided: what was set, else the environment, else the default.
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
  bool check = false;             ///< FA2_CHECK: tables of sequences before each launch
  std::vector<Violation> doubts;  ///< what is hardly meant, and does no harm: directories that are not there
};

/// How a variable's value is read: env(), or a test's own table.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

/// @throws InvalidRequest naming every variable or option with a value that is not allowed, and what is: also
/// variables that a context does not read itself. Those that an option overrules are not looked at.
Settings settings_of(const ContextOptions& options, const Environment& environment);
/// With the process's environment; doubts name variables that fa2 does not have, too.
Settings settings_of(const ContextOptions& options);

/// The directories of a list separated by ':'; empty ones are left out.
std::vector<std::string> split_paths(std::string_view text);

/// The tuning records beside the kernels of a cache directory.
std::filesystem::path tuning_file(const std::filesystem::path& cache_dir);

}  // namespace fa2
