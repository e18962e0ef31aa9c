// The problems that records ship of: one table.
#include <tools/problem_options.h>
#include <tools/tuning_matrix.h>

#include <string>
#include <utility>

namespace fa2::tools {
namespace {

/// Each row is a matrix of its own: every combination of its lists. What a row does not say is as in `fa2 bench`: head
/// dims 64, 128, 256, lengths 512 .. 16k, with and without the causal mask, 16k tokens, hidden 2048.
std::vector<MatrixOptions> rows() {
  const std::vector<std::int32_t> d128 = {128};
  const std::vector<std::int64_t> at_4k = {4096};
  return {
      {},
      // 32 query heads share 8 heads of keys.
      {.head_dims = d128, .variants = {.heads_kv = 8}, .hidden = 32 * 128},
      {.head_dims = d128, .seqlens = at_4k, .causal = "yes", .variants = {.window_left = 1024}},
      {.head_dims = d128, .seqlens = at_4k, .causal = "yes", .variants = {.softcap = true}},
      {.head_dims = d128, .seqlens = at_4k, .causal = "yes", .variants = {.alibi = true}},
      {.head_dims = d128, .seqlens = at_4k, .causal = "yes", .variants = {.sinks = true}},
      // 64 sequences of 512 on average and 1024 at most, packed.
      {.head_dims = d128,
       .seqlens = {1024},
       .variants = {.varlen = true, .total_q = 32768, .total_k = 32768},
       .tokens = 64 * 1024},
  };
}

}  // namespace

std::vector<PlannedProblem> standard_matrix() {
  std::vector<PlannedProblem> problems;
  for (MatrixOptions row : rows()) {
    row.dtypes = {"f16", "bf16"};
    for (const AttentionProblem& problem : row.problems()) problems.emplace_back(problem, PlanOptions{});
  }
  return problems;
}

}  // namespace fa2::tools
