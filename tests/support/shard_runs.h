// Runs of plans on ranks that are threads, and what is expected of them.
#pragma once

#include <fa2/context.h>
#include <fa2/context_parallel.h>

#include <cstdint>
#include <vector>

#include "shards.h"

namespace fa2::test {

/// What all ranks computed.
struct Outcome {
  std::vector<reference::Tensor> out, dq, dk, dv;
  std::vector<std::vector<float>> lse, d_sinks;
  std::vector<ContextParallelExplanation> explanations;
};

struct ShardRun {
  int ranks = 2;
  std::int32_t groups = 0;
  bool late = false;
  std::uint64_t seed = 1;
  MakeLayout tensors = guarded_bshd;
  ContextParallelScheme scheme = ContextParallelScheme::automatic;
  bool peer_memory = false;  ///< by copies into memory that ranks map
};

/// Runs a forward, and on request a backward, on every rank.
Outcome run_ranks(Context& context, const ShardedCase& of, const GuardedBackward& whole,
                  const ShardLayout& layout, const ShardRun& run, bool backward);

/// CHECKs that every rank has its rows of O and LSE, of one device's bits on request.
void expect_outputs(const ShardedCase& of, const GuardedBackward& whole, const Outcome& outcome,
                    const ShardLayout& layout, bool same_bits);

/// CHECKs dQ, dK and dV of every rank.
void expect_gradients_of(const GuardedBackward& whole, const Outcome& outcome, const ShardLayout& layout);

/// CHECKs that two runs have the same bits of dQ, dK and dV on every rank.
void expect_same_gradients(const Outcome& outcome, const Outcome& again);

/// CHECKs that the gradients of sinks of all ranks add up to one device's. Adds sinks to `of`.
void expect_sums_of_sinks(Context& context, ShardedCase of, const ShardLayout& layout, const ShardRun& run);

/// CHECKs on two ranks that O in float32 is that of 16 bits, before it is rounded.
void expect_float32_outputs(Context& context, const ShardedCase& of, const ShardLayout& layout,
                            const ContextParallelOptions& options);

/// CHECKs that the pairs of all ranks are those of one device.
void expect_all_pairs(const Outcome& outcome, std::int64_t expected);

}  // namespace fa2::test
