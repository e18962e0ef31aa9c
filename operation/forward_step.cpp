// The arithmetic of a forward's launch.
#include <generator/kernel_kind.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>
#include <operation/forward_step.h>
#include <operation/tensor_maps.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <templates/attention/params.cuh>
#include <templates/attention/tile_schedule.cuh>
#include <utility>

namespace fa2 {
namespace {

/// A window's width, as far as it makes a difference: sums with rows and keys stay below 2^31.
int width_of(const std::optional<std::int64_t>& width, std::int64_t longest) {
  return static_cast<int>(std::min(width.value_or(0), longest));
}

bool is_persistent(const KernelConfig& config) {
  return config.schedule != kOneTileEach;
}

/// All but pointers, strides, scale and empty_row_lse. Validation keeps batch * heads_q * q_tiles below 2^31, and what
/// packed sequences have of tiles.
AttentionParams constants_of(const AttentionProblem& p, const KernelConfig& config) {
  const std::int64_t heads = p.heads_q / config.packed_heads;
  const std::int64_t q_rows = p.seqlen_q * config.packed_heads;
  AttentionParams params{};
  params.seqlen_q = static_cast<int>(p.seqlen_q);
  params.q_rows = static_cast<int>(q_rows);
  params.seqlen_k = static_cast<int>(p.seqlen_k);
  params.heads_q = static_cast<int>(heads);
  params.queries_per_kv = static_cast<int>(heads / p.heads_kv);
  params.q_tiles = static_cast<int>((q_rows + config.tile_m - 1) / config.tile_m);
  params.head_count = static_cast<int>(p.batch * heads);
  params.heads_per_section = heads_per_section(p, config);
  params.window_left = width_of(p.window_left, p.mask == MaskKind::causal_top_left ? p.seqlen_q : p.seqlen_k);
  params.window_right = width_of(p.window_right, p.seqlen_q);
  params.first_key = static_cast<int>(visible_keys(p).first);
  params.sequences.total_q = static_cast<int>(q_entries(p).rows);
  params.sequences.total_k = static_cast<int>(k_entries(p).rows);
  params.sequences.batch = static_cast<int>(p.batch);
  return params;
}

/// As many as there can be: of packed sequences, each may end inside a tile.
std::int64_t most_tiles(const AttentionProblem& p, const AttentionParams& constants,
                        const KernelConfig& config) {
  const std::int64_t of_longest = std::int64_t{constants.q_tiles} * constants.head_count;
  if (p.total_q == 0) return of_longest;
  const std::int64_t packed = p.total_q * config.packed_heads / config.tile_m + p.batch;
  return std::min(of_longest, packed * constants.heads_q);
}

LaunchShape shape_of(std::int64_t tiles, const KernelConfig& config, int sm_count) {
  std::int64_t blocks = tiles;
  if (is_persistent(config))
    blocks = std::min<std::int64_t>(blocks, std::int64_t{sm_count} * config.ctas_per_sm);
  return {static_cast<std::uint32_t>(blocks)};
}

Strides ref(const TensorStrides& strides) {
  return {strides.batch, strides.head, strides.row};
}

/// tanh(x) = x (1 + x^2 (kCubic + kQuintic x^2)) up to |x| = kSeriesEnd: relative error 4.9e-7, a least-squares fit weighted
/// until its largest error is as small as it gets. The kernel takes the square completed, which needs an instruction less.
SoftcapParams softcap_params(float softcap, float scale) {
  constexpr double kCubic = -0.333245713, kQuintic = 0.128764193, kSeriesEnd = 0.25;
  const double per_score = double{scale} / softcap;  // x of a score before the scale
  const double x = std::max(std::fabs(per_score), 1e-9),
               x2 = x * x;  // below that every finite score is in the series
  const double shift = kCubic / (2 * kQuintic * x2), factor = kQuintic * x2 * x2;
  const auto narrow = [](double value) {
    return static_cast<float>(std::clamp<double>(value, -FLT_MAX, FLT_MAX));
  };
  return {.series_end = narrow(kSeriesEnd / x),
          .last_term = narrow(kSeriesEnd * kSeriesEnd / x2 + shift),
          .shift = narrow(shift),
          .constant = narrow(1 / factor - shift * shift),
          .factor = narrow(factor),
          .factor_log2 = narrow(factor * scale * std::numbers::log2e),
          .exponent = narrow(2 * std::numbers::log2e * per_score),
          .limit = narrow(1 / per_score)};
}

/// What constants_of() leaves out.
void add_call(AttentionParams& params, const AttentionProblem& p, const AttentionArgs& args) {
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
  params.signed_scale_log2 = std::copysign(params.scale_log2, params.scale);
  if (p.softcap) params.softcap = softcap_params(args.softcap, params.scale);
  params.alibi_slopes = args.alibi_slopes;
  params.alibi_batch_stride = args.alibi_slopes_per_batch ? p.heads_q : 0;
  params.sinks = args.sinks;
  params.sequences.cu_seqlens_q = args.cu_seqlens_q;
  params.sequences.cu_seqlens_k = args.cu_seqlens_k;
  params.sequences.seqused_q = args.seqused_q;
  params.sequences.seqused_k = args.seqused_k;
  const float infinity = std::numeric_limits<float>::infinity();
  params.empty_row_lse = args.empty_row_lse == EmptyRowLse::positive_infinity ? infinity : -infinity;
}

void fill_sm80(const Step& step, const Call& call, ParamsBuffer& buffer) {
  add_call(buffer.emplace(step.constants.as<AttentionParams>()), call.problem, call.args);
}

/// All but next_tile, which each launch has for itself.
void fill_sm90(const Step& step, const Call& call, ParamsBuffer& buffer) {
  AttentionParamsSm90& params = buffer.emplace(step.constants.as<AttentionParamsSm90>());
  add_call(params.attention, call.problem, call.args);
  fill_tensor_maps(call.problem, step.config, call.operands, params);
}

/// As operands_of() lists them. A step's part of the workspace is its own affair.
std::vector<OperandUse> every_operand(const AttentionProblem& problem) {
  std::vector<OperandUse> uses;
  const Operands operands = operands_of(problem, {});
  for (std::size_t i = 0; i < kOperandCount; ++i) {
    const Role role = static_cast<Role>(i);
    if (role != Role::workspace) uses.push_back({role, operands[role].access});
  }
  return uses;
}

}  // namespace

bool needs_counter(const KernelConfig& config) {
  return config.schedule == kDynamicPersistent;
}

Step forward_step(const AttentionProblem& problem, const KernelConfig& config,
                  std::shared_ptr<const Kernel> kernel, int sm_count,
                  std::shared_ptr<LaunchCounters> counters) {
  const AttentionParams constants = constants_of(problem, config);
  const std::int64_t tiles = most_tiles(problem, constants, config);
  Step step;
  step.kernel = std::move(kernel);
  step.config = config;
  step.shape = shape_of(tiles, config, sm_count);
  step.uses = every_operand(problem);
  if (kind_of(config).params == KernelParams::attention) {
    step.constants.emplace(constants);
    step.fill = fill_sm80;
    return step;
  }
  AttentionParamsSm90 params{};
  params.attention = constants;
  params.block_count = step.shape.grid;
  step.constants.emplace(params);
  step.fill = fill_sm90;
  if (needs_counter(config)) {
    step.workspace.bytes = sizeof *params.next_tile;
    step.workspace.param = offsetof(AttentionParamsSm90, next_tile);
    step.counters = std::move(counters);
  }
  return step;
}

int heads_per_section(const AttentionProblem& p, const KernelConfig& config) {
  if (p.mask == MaskKind::none) return 1;
  const std::int64_t group = p.heads_q / p.heads_kv / config.packed_heads,
                     groups = p.varlen ? p.heads_kv : p.batch * p.heads_kv;
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

}  // namespace fa2
