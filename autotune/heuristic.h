// The configuration to use when nothing has been measured.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>
#include <generator/arch.h>

#include <string>

namespace fa2 {

struct HeuristicChoice {
  KernelConfig config;
  std::string reason;  ///< one sentence
};

/// Always valid: why_rejected() is empty for it. `sm_count` 0: unknown (precompiling without a GPU).
HeuristicChoice heuristic(const AttentionProblem& problem, const Arch& arch, int sm_count);

}  // namespace fa2
