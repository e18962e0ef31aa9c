// Counts the work of attention by the convention of FlashAttention's tables.
#include <generator/visible_keys.h>
#include <reference/sequences.h>
#include <tools/flops.h>

namespace fa2::tools {
namespace {

/// Returns the visible pairs of queries and keys. `p` must be normalized.
double pairs_of(const AttentionProblem& p) {
  const bool is_plain_causal = p.mask != MaskKind::none && !p.window_left && !p.attention_chunk;
  if (is_plain_causal && p.seqlen_q == p.seqlen_k) {
    const auto n = static_cast<double>(p.seqlen_q);
    return n * n / 2;
  }
  return visible_pairs(p);
}

}  // namespace

double flops_of(const AttentionProblem& problem) {
  const AttentionProblem p = problem.normalized();
  return 2.0 * static_cast<double>(p.batch * p.heads_q) * (p.head_dim + p.head_dim_v) * pairs_of(p);
}

double flops_of(const AttentionProblem& problem, const AttentionArgs& tables) {
  if (!problem.varlen) return flops_of(problem);
  double flops = 0;
  for (const reference::Sequence& sequence : reference::sequences_of(problem, tables))
    flops += flops_of(reference::problem_of(problem, sequence));
  return flops;
}

double tflops(const AttentionProblem& problem, double us) {
  return tflops(flops_of(problem), us);
}

double tflops(double flops, double us) {
  return us > 0 ? flops / us * 1e-6 : 0;
}

}  // namespace fa2::tools
