// The environment variables fa2 reads: the one table, and the only getenv in the project.
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
  std::string_view default_value;  ///< as documented
  std::string_view values;         ///< what it takes: "on, off"; "0..4294967295"; "a directory"
  std::string_view meaning;        ///< one line
  /// Enters what is wrong with a value into `found`. nullptr: only its use can tell, as of a path.
  void (*check)(const EnvVariable& variable, const std::string& value, std::vector<Violation>& found);
};

/// Every FA2_* variable, for reading and checking, `fa2 info` and docs/environment.md.
std::span<const EnvVariable> environment();

/// The value of a variable; nullopt if unset or empty. `name` must be in environment() or one of the
/// system variables fa2 honours (XDG_CACHE_HOME, HOME, CUDA_HOME, CUDA_PATH, COLUMNS).
std::optional<std::string> env(std::string_view name);

/// What is wrong with a value of `name`, which must be in environment(); empty if nothing is.
std::vector<Violation> violations_of_variable(std::string_view name, const std::string& value);

/// The value, else the default. @throws InvalidRequest with what the variable takes.
std::string checked_env(std::string_view name);

/// The process's FA2_* variables that are in no table: misspelt, or of another version.
std::vector<Violation> unknown_variables();

}  // namespace fa2
