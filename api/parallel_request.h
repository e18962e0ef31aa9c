// What ranks ask for when they make a plan together, and its rules.
#pragma once

#include <fa2/backward.h>
#include <fa2/communicator.h>
#include <fa2/context_parallel.h>
#include <operation/rules/violations.h>
#include <parallel/agreement.h>
#include <parallel/request_check.h>
#include <planning/backward.h>
#include <runtime/device.h>

#include <cstdint>
#include <vector>

namespace fa2 {

inline constexpr Gradients kNoGradients{.dq = false, .dk = false, .dv = false};

struct ParallelRequest {
  const AttentionProblem& given;
  const ShardLayout& layout;
  const ContextParallelOptions& options;
  const std::vector<std::int64_t>& cu_seqlens;
  Communicator& communicator;
  const Device& gpu;
  AttentionProblem problem = given.normalized();
  Gradients gradients = options.gradients ? kept_by(given, *options.gradients) : kNoGradients;

  std::int64_t entries() const { return problem.varlen ? 1 : problem.batch; }
};

/// Returns the rules that the request breaks under every scheme.
RequestCheck broken_rules(const ParallelRequest& request);

/// Returns what all ranks must say alike.
std::vector<Statement> statements_of(const ParallelRequest& request);

/// Returns what is wrong with the arguments of a run, beyond the rules of those of attention().
Violations violations_of_run(const AttentionProblem& problem, ContextParallelScheme scheme,
                             const AttentionArgs& args);

}  // namespace fa2
