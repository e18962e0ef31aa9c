// The environment variables fa2 reads: the one table, and the only getenv in the project.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fa2 {

struct EnvVariable {
  std::string_view name;           ///< "FA2_CACHE_DIR"
  std::string_view default_value;  ///< as documented
  std::string_view meaning;        ///< one line
};

/// Every FA2_* variable, for `fa2 info` and docs/environment.md.
std::span<const EnvVariable> environment();

/// The value of a variable; nullopt if unset or empty. `name` must be in environment() or one of the
/// system variables fa2 honours (XDG_CACHE_HOME, HOME, CUDA_HOME, CUDA_PATH).
std::optional<std::string> env(std::string_view name);

}  // namespace fa2
