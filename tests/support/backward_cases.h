// Expectations of every kernel that computes dQ, dK and dV at once.
#pragma once

#include <core/arch.h>
#include <fa2/backward.h>
#include <planning/backward_scratch.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "gpu_backward.h"
#include "varlen.h"

namespace fa2::test {

/// Runs an uploaded call with the kernel under test, and CHECKs its gradients.
using Expectation = std::function<void(const GuardedBackward&)>;

/// CHECKs calls in which every score is very negative. Then a key beyond the last has the probability 2^-LSE
/// = inf. It must not reach dQ, where inf * 0 is NaN.
void expect_no_part_of_missing_keys(const Expectation& expect, int head_dim, int seqlen_k);

/// CHECKs a call whose bias grows with the distance, so that a query beyond the last may have the probability
/// inf.
void expect_no_part_of_missing_queries(const Expectation& expect);

/// CHECKs large and negative scales, with gradients of any size.
void expect_any_scale_and_size(const Expectation& expect, int head_dim);

/// CHECKs that NaN in dO of query 150 reaches its dQ and the dK and dV of its keys, but no key tile from
/// `first_hidden` on, which the query does not see.
void expect_nan_of_one_query(Context& context, std::int64_t first_hidden);

/// CHECKs packed sequences, of which one consists of NaN.
void expect_nan_of_one_sequence(const Expectation& expect, int head_dim);

/// Returns a plan that launches kernels of these configs, one after the other, as rendered for `arch`.
BackwardPlan plan_of_kernels(const AttentionProblem& problem, const std::vector<KernelConfig>& configs,
                             const BackwardScratch& scratch, const Arch& arch);

/// Uploads a call, runs it in a workspace that holds NaN, and CHECKs its gradients.
void run_after_nan(const BackwardPlan& plan, GuardedBackward& call);

/// CHECKs that the plan of `call`, whose batch is 4, serves several lengths in a workspace that holds NaN.
void expect_any_lengths(const BackwardPlan& plan, GuardedBackward& call, Packing packing);

}  // namespace fa2::test
