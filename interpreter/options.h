// How kernels are interpreted: FA2_INTERPRETER.
#pragma once

#include <cstdint>
#include <string>

namespace fa2::interpreter {

struct Options {
  bool late = false;       ///< asynchronous work completes when its wait ends, and not when it is issued
  bool checks = true;      ///< stop at what breaks a rule of the machine
  std::uint32_t seed = 0;  ///< of the order in which warps run; 0: always ascending
};

/// "late,unchecked,seed=7"; words may be left out. @throws InvalidRequest with every word that is wrong or contradicts
/// another.
Options parse_options(const std::string& text);

/// From FA2_INTERPRETER.
Options options_from_environment();

}  // namespace fa2::interpreter
