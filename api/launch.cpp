// The arithmetic of one launch.
#include <api/launch.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numbers>

namespace fa2 {
namespace {

TensorRef ref(const TensorStrides& strides) {
  return {strides.batch, strides.head, strides.row};
}

}  // namespace

Launch launch_of(const AttentionProblem& p, const KernelConfig& config) {
  if (p.batch == 0 || p.seqlen_q == 0) return {};
  // Validation keeps batch * heads_q * q_tiles below 2^31.
  const std::int64_t q_tiles = (p.seqlen_q + config.tile_m - 1) / config.tile_m;
  const std::int64_t head_count = p.batch * p.heads_q;
  Launch launch;
  launch.grid = static_cast<std::uint32_t>(q_tiles * head_count);
  launch.params.seqlen_q = static_cast<int>(p.seqlen_q);
  launch.params.seqlen_k = static_cast<int>(p.seqlen_k);
  launch.params.heads_q = static_cast<int>(p.heads_q);
  launch.params.queries_per_kv = static_cast<int>(p.heads_q / p.heads_kv);
  launch.params.q_tiles = static_cast<int>(q_tiles);
  launch.params.head_count = static_cast<int>(head_count);
  launch.params.heads_per_section = heads_per_section(p);
  return launch;
}

int heads_per_section(const AttentionProblem& p) {
  if (p.mask == MaskKind::none) return 1;
  constexpr std::int64_t kMaxHeads = 64;
  const std::int64_t group = p.heads_q / p.heads_kv, groups = p.batch * p.heads_kv;
  const std::int64_t most = std::max<std::int64_t>(1, kMaxHeads / group);
  const std::int64_t sections = std::max<std::int64_t>(1, (groups + most - 1) / most);
  return static_cast<int>((groups + sections - 1) / sections * group);
}

float scale_log2(float scale) {
  const double exact = std::fabs(static_cast<double>(scale)) * std::numbers::log2e;
  return static_cast<float>(std::clamp<double>(exact, FLT_MIN, FLT_MAX));
}

AttentionParams params_of(const Launch& launch, const AttentionProblem& p, const AttentionArgs& args) {
  AttentionParams params = launch.params;
  params.q = args.q;
  params.k = args.k;
  params.v = args.v;
  params.o = args.o;
  params.lse = args.lse;
  params.q_strides = ref(args.q_strides);
  params.k_strides = ref(args.k_strides);
  params.v_strides = ref(args.v_strides);
  params.o_strides = ref(args.o_strides);
  params.scale =
      args.softmax_scale ? *args.softmax_scale : static_cast<float>(1 / std::sqrt(double(p.head_dim)));
  params.scale_log2 = scale_log2(params.scale);
  const float infinity = std::numeric_limits<float>::infinity();
  params.empty_row_lse = args.empty_row_lse == EmptyRowLse::positive_infinity ? infinity : -infinity;
  return params;
}

}  // namespace fa2
