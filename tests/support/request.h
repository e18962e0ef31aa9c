// Requests whose rules are tested, and the violations that are found.
#pragma once

#include <fa2/args.h>
#include <fa2/errors.h>

#include <cstdint>
#include <string>
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

}  // namespace fa2::test
