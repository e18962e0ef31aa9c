#include <generator/kernel_kind.h>
#include <generator/packed_heads.h>

namespace fa2 {

int packed_heads(const AttentionProblem& problem, int tile_m) {
  const std::int64_t group = problem.heads_kv > 0 ? problem.heads_q / problem.heads_kv : 1;
  int packed = 1;
  if (problem.dropout) return packed;
  while (packed < kMostPackedHeads && group % (2 * packed) == 0 && problem.seqlen_q * packed < tile_m)
    packed *= 2;
  return packed;
}

KernelConfig with_packed_heads(KernelConfig config, const AttentionProblem& problem) {
  if (kind_of(config).tunable("packed_heads") != nullptr)
    config.packed_heads = packed_heads(problem, config.tile_m);
  return config;
}

}  // namespace fa2
