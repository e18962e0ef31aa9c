// The arithmetic of one launch.
#include <api/launch.h>
#include <api/tensor_maps.h>
#include <generator/kernel_kind.h>
#include <generator/tile_schedule.h>
#include <runtime/device.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace fa2 {
namespace {

TensorRef ref(const TensorStrides& strides) {
  return {strides.batch, strides.head, strides.row};
}

bool is_persistent(const KernelConfig& config) {
  return config.schedule != kOneTileEach;
}

}  // namespace

bool needs_counter(const KernelConfig& config) {
  return config.schedule == kDynamicPersistent;
}

Launch launch_of(const AttentionProblem& p, const KernelConfig& config, int sm_count,
                 std::shared_ptr<LaunchCounters> counters) {
  Launch launch;
  launch.config = config;
  if (p.batch == 0 || p.seqlen_q == 0) return launch;
  // Validation keeps batch * heads_q * q_tiles below 2^31.
  const std::int64_t heads = p.heads_q / config.packed_heads;
  const std::int64_t q_tiles = (p.seqlen_q * config.packed_heads + config.tile_m - 1) / config.tile_m;
  const std::int64_t head_count = p.batch * heads;
  std::int64_t blocks = q_tiles * head_count;
  if (is_persistent(config))
    blocks = std::min<std::int64_t>(blocks, std::int64_t{sm_count} * config.ctas_per_sm);
  launch.grid = static_cast<std::uint32_t>(blocks);
  launch.params.seqlen_q = static_cast<int>(p.seqlen_q);
  launch.params.q_rows = static_cast<int>(p.seqlen_q * config.packed_heads);
  launch.params.seqlen_k = static_cast<int>(p.seqlen_k);
  launch.params.heads_q = static_cast<int>(heads);
  launch.params.queries_per_kv = static_cast<int>(heads / p.heads_kv);
  launch.params.q_tiles = static_cast<int>(q_tiles);
  launch.params.head_count = static_cast<int>(head_count);
  launch.params.heads_per_section = heads_per_section(p, config);
  launch.counters = std::move(counters);
  return launch;
}

int heads_per_section(const AttentionProblem& p, const KernelConfig& config) {
  if (p.mask == MaskKind::none) return 1;
  const std::int64_t group = p.heads_q / p.heads_kv / config.packed_heads, groups = p.batch * p.heads_kv;
  std::int64_t most_heads = 64;
  if (const std::int64_t section_bytes = kind_of(config).section_bytes; section_bytes > 0) {
    const std::int64_t head_bytes =
        std::max<std::int64_t>(1, p.seqlen_k * (p.head_dim + p.head_dim_v) * 2 / group);
    most_heads = std::clamp<std::int64_t>(section_bytes / head_bytes, 16, 32);
  }
  const std::int64_t most = std::max<std::int64_t>(1, most_heads / group);
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

AttentionParamsSm90 params_sm90_of(const Launch& launch, const Call& call) {
  AttentionParamsSm90 params{};
  params.attention = params_of(launch, call.problem, call.args);
  params.tile_count =
      static_cast<unsigned>(launch.params.q_tiles) * static_cast<unsigned>(launch.params.head_count);
  params.block_count = launch.grid;
  fill_tensor_maps(call.problem, launch.config, call.operands, params);
  return params;
}

void start(const Kernel& kernel, const Launch& launch, const Call& call, Stream stream,
           const LaunchMemory* memory, int times) {
  if (kind_of(launch.config).params == KernelParams::attention) {
    const AttentionParams params = params_of(launch, call.problem, call.args);
    for (int i = 0; i < times; ++i) kernel.launch(launch.grid, &params, sizeof params, stream, memory);
    return;
  }
  AttentionParamsSm90 params = params_sm90_of(launch, call);
  const bool counts = needs_counter(launch.config);
  const bool captured = counts && stream != nullptr && is_capturing(stream);  // the default stream cannot be
  for (int i = 0; i < times; ++i) {
    if (counts) params.next_tile = launch.counters->take(captured);
    kernel.launch(launch.grid, &params, sizeof params, stream, memory);
  }
}

}  // namespace fa2
