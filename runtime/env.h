// The table of environment variables that fa2 reads. Only env.cpp calls getenv.
#pragma once

#include <fa2/errors.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

struct EnvVariable {
  std::string_view name;           ///< "FA2_CACHE_DIR"
  std::string_view default_value;  ///< default, as documented
  std::string_view values;         ///< accepted values: "on, off"; "0..4294967295"; "a directory"
  std::string_view meaning;        ///< one line
  /// Adds to `found` what is wrong with a value. nullptr: only the use can tell, for example for a path.
  void (*check)(const EnvVariable& variable, const std::string& value, std::vector<Violation>& found);
};

/// Returns every FA2_* variable, for reading, checking, `fa2 info` and docs/environment.md.
std::span<const EnvVariable> environment();

/// Returns a variable's value; nullopt if unset or empty. `name` must be in environment() or one of the
/// system variables (XDG_CACHE_HOME, HOME, CUDA_HOME, CUDA_PATH, COLUMNS), or in rank_counts().
std::optional<std::string> env(std::string_view name);

/// Returns the variables by which launchers tell a process how many ranks it is one of.
std::span<const std::string_view> rank_counts();

/// Returns what is wrong with a value of `name`, which must be in environment().
std::vector<Violation> violations_of_variable(std::string_view name, const std::string& value);

/// Returns the value, else the default. @throws InvalidRequest that lists the accepted values.
std::string checked_env(std::string_view name);

/// Returns the process's FA2_* variables that the table lacks: misspelt, or from another version.
std::vector<Violation> unknown_variables();

}  // namespace fa2
