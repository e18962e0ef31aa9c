// One call of attention with a function of scores, checked against the function of the host.
#pragma once

#include <reference/attention_reference.h>

#include <string>
#include <vector>

#include "function.h"

namespace example {

struct CallOptions {
  ScoreSizes sizes = {.batch = 2, .heads = 8, .length = 2048};
  std::int32_t head_dim = 128;
  bool backward = false;  ///< computes gradients too
  bool check = false;     ///< compares with float64
};

/// What one direction of a call gave.
struct Direction {
  std::vector<fa2::reference::Verdict> verdicts;  ///< of O, or of dQ, dK and dV; none unless checked
  double us = 0;                                  ///< per launch; 0 on the interpreter

  /// Returns the verdict whose error is the greatest part of its limit.
  const fa2::reference::Verdict& worst() const;
};

struct CallResult {
  std::string name, device, arch;
  double visible = 0;  ///< share of pairs of a query and a key
  Direction forward, backward;
};

/// Computes attention in bfloat16, on the first GPU or the interpreter. @throws fa2::Error; std::runtime_error of a copy.
CallResult call(const Function& function, const CallOptions& options);

}  // namespace example
