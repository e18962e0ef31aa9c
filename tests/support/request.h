// Requests whose rules are tested, and the violations that are found.
#pragma once

#include <fa2/args.h>
#include <fa2/errors.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace fa2::test {

/// Returns an address that no test dereferences.
inline void* at(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

inline AttentionArgs arguments(const AttentionProblem& p) {
  return bshd_args(p, at(0x1000000), at(0x2000000), at(0x3000000), at(0x4000000),
                   reinterpret_cast<float*>(at(0x5000000)));
}

/// Returns "field: value" of each violation, one per line. Tests check a rule's text separately if it
/// matters.
inline std::string fields(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& v : violations) text += (text.empty() ? "" : "\n") + v.field + ": " + v.value;
  return text;
}

/// Returns "FIELD = VALUE, RULE" lines.
inline std::string lines(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& v : violations) text += to_string(v) + "\n";
  return text;
}

/// Returns the fields that are wrong after change(problem), or after change(problem, args).
template <class Problem, class Args, class Change>
std::string broken(Problem problem, Args (*args_of)(const Problem&), const Change& change) {
  if constexpr (std::is_invocable_v<Change, Problem&>) {
    change(problem);
    return fields(violations_of(problem));
  } else {
    Args args = args_of(problem);
    change(problem, args);
    return fields(violations_of(problem, args));
  }
}

}  // namespace fa2::test
