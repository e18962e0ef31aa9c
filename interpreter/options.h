// Options of the interpreter: FA2_INTERPRETER.
#pragma once

#include <cstdint>
#include <string>

namespace fa2::interpreter {

struct Options {
  bool late = false;       ///< asynchronous work completes when its wait ends, not when it is issued
  bool checks = true;      ///< stop at the first violated PTX rule
  std::uint32_t seed = 0;  ///< seed for the order in which warps run; 0: always ascending
};

/// Parses "late,unchecked,seed=7"; every word is optional. @throws InvalidRequest that lists every word that
/// is wrong or contradicts another.
Options parse_options(const std::string& text);

/// Parses FA2_INTERPRETER.
Options options_from_environment();

}  // namespace fa2::interpreter
