// The work of a problem, and the speed at which it was done.
#pragma once

#include <fa2/args.h>
#include <fa2/problem.h>

namespace fa2::tools {

/// Returns the multiplications and additions of the two products: 4 * batch * heads * seqlen^2 * head_dim, or
/// half of that if causal, by the convention of FlashAttention's tables. Causal problems that are not square,
/// windows and chunks count visible pairs. A varlen problem counts sequences of mean length.
double flops_of(const AttentionProblem& problem);
/// Returns the sum over a varlen problem's sequences. `tables`: host pointers; nothing else is read.
double flops_of(const AttentionProblem& problem, const AttentionArgs& tables);

/// Returns TFLOP/s at `us` microseconds per launch.
double tflops(const AttentionProblem& problem, double us);
double tflops(double flops, double us);

/// Work of a backward relative to the forward: five products instead of two.
inline constexpr double kBackwardFlops = 2.5;

}  // namespace fa2::tools
