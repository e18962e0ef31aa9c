// The table of problems for which records ship.
#include <tools/problem_options.h>
#include <tools/tuning_matrix.h>

#include <string>
#include <utility>

namespace fa2::tools {
namespace {

/// Each row is a matrix: every combination of its lists. Lists that a row omits have the defaults of `fa2
/// bench`: head dims 64, 128, 256, lengths 512 to 16k, with and without the causal mask, 16k tokens, hidden
/// 2048.
std::vector<MatrixOptions> rows() {
  const std::vector<std::int32_t> d128 = {128};
  const std::vector<std::int64_t> at_4k = {4096};
  return {
      {},
      // 32 query heads share 8 key/value heads.
      {.head_dims = d128, .variants = {.heads_kv = 8}, .hidden = 32 * 128},
      {.head_dims = d128, .seqlens = at_4k, .causal = "yes", .variants = {.window_left = 1024}},
      {.head_dims = d128, .seqlens = at_4k, .causal = "yes", .variants = {.softcap = true}},
      {.head_dims = d128, .seqlens = at_4k, .causal = "yes", .variants = {.alibi = true}},
      {.head_dims = d128, .seqlens = at_4k, .causal = "yes", .variants = {.sinks = true}},
      // 64 packed sequences with a mean of 512 and at most 1024.
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
