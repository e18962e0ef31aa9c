// Computes the fields of AttentionParams.
#include <generator/head_packing.h>
#include <generator/kernel_kind.h>
#include <generator/key_value_format.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>
#include <planning/attention_params.h>
#include <planning/dropout_stream.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numbers>
#include <templates/attention/common/query_positions.cuh>

namespace fa2 {
namespace {

/// Returns a window's width, limited to the longest that matters, so that sums with rows and keys stay below 2^31.
int width_of(const std::optional<std::int64_t>& width, std::int64_t longest) {
  return static_cast<int>(std::min(width.value_or(0), longest));
}

/// Returns the chunks, limited likewise: one as long as the longest sequence holds every position.
KeyChunks chunks_of(const AttentionProblem& p) {
  const std::int64_t longest = p.query_pieces ? kEndOfPositions : std::max(p.seqlen_q, p.seqlen_k);
  return {divisor_of(static_cast<unsigned>(std::min(p.attention_chunk.value_or(0), longest)))};
}

/// Returns the softcap's numbers. Completes the square in TanhSeries, which saves the kernel an instruction. But products grow
/// with the fourth power of cap / scale and would overflow. Therefore the series takes a cap as at most 2^26 |scale|, and ends at
/// a score of 2^15; this changes a score by at most one unit in its last place. There is no series if a factor still leaves
/// float32.
SoftcapParams softcap_params(float softcap, float scale) {
  constexpr double kLeast = 0x1p-26, kFarthest = 0x1p15, kLargestFactor = 0x1p96;
  constexpr float kLarge =
      512;  // an error of 6e-7 of it changes a probability by less than rounding to float16 does
  // The argument of tanh for a score of 1; `limit`, its reciprocal, must be a normal float too.
  const double x = std::clamp<double>(std::fabs(double{scale}) / softcap, FLT_MIN, 1 / double{FLT_MIN});
  const double x2 = std::pow(std::max(x, kLeast), 2), end = std::min(TanhSeries::kEnd / x, kFarthest);
  const double shift = TanhSeries::kCubic / (2 * TanhSeries::kQuintic * x2),
               factor = TanhSeries::kQuintic * x2 * x2, factor_log2 = factor * scale * std::numbers::log2e;
  const auto narrow = [](double value) {
    return static_cast<float>(std::clamp<double>(value, -FLT_MAX, FLT_MAX));
  };
  const auto is_usable = [](double value) { return value >= FLT_MIN && value <= kLargestFactor; };
  const bool has_series = is_usable(factor) && is_usable(std::fabs(factor_log2));
  return {.series_end = has_series ? narrow(end) : -1.0f,
          .last_term = has_series ? narrow(end * end + shift) : -std::numeric_limits<float>::infinity(),
          .shift = narrow(shift),
          .constant = narrow(1 / factor - shift * shift),
          .factor = narrow(factor),
          .factor_log2 = narrow(factor_log2),
          .exponent = narrow(2 * std::numbers::log2e * x),
          .limit = narrow(1 / x),
          .is_large = softcap > kLarge};
}

DropoutParams dropout_params(const Dropout& dropout) {
  constexpr double kNumbers = 4294967296.0;
  const double dropped = std::round(double{dropout.probability} * kNumbers);
  DropoutParams params{};
  params.state = reinterpret_cast<const int*>(dropout.state);
  params.threshold = static_cast<unsigned>(dropped);
  params.rescale = static_cast<float>(kNumbers / (kNumbers - dropped));
  const DropoutStream stream = dropout_stream(dropout.seed, dropout.offset);
  std::ranges::copy(stream, params.stream);
  return params;
}

/// Returns the strides of K or V in units of 16 bits. Only strides that no index multiplies are odd numbers of bytes.
Strides key_value_strides(const AttentionProblem& p, const TensorStrides& strides) {
  const std::int64_t in_unit = 2 / bytes_of(key_value_format(p).element);
  return {strides.batch / in_unit, strides.head / in_unit, strides.row / in_unit};
}

}  // namespace

std::int64_t most_key_tiles(const AttentionProblem& p, const KernelConfig& config) {
  const std::int64_t of_longest = p.batch * ((p.seqlen_k + config.tile_m - 1) / config.tile_m);
  if (p.total_k == 0) return p.heads_kv * of_longest;
  return p.heads_kv * std::min(of_longest, p.total_k / config.tile_m + p.batch);
}

AttentionParams constants_of(const AttentionProblem& p, const KernelConfig& config) {
  AttentionParams params{};
  params.packing = head_packing(p, config);
  const std::int64_t heads = p.heads_q / params.packing.heads;
  const std::int64_t q_rows = packed_rows(params.packing, p.seqlen_q);
  params.seqlen_q = static_cast<int>(p.seqlen_q);
  params.q_rows = static_cast<int>(q_rows);
  params.seqlen_k = static_cast<int>(p.seqlen_k);
  params.heads_q = static_cast<int>(heads);
  params.queries_per_kv = static_cast<int>(heads / p.heads_kv);
  params.q_tiles = static_cast<int>((q_rows + config.tile_m - 1) / config.tile_m);
  params.head_count = static_cast<int>(p.batch * heads);
  params.sections = head_sections(p, heads, heads_per_section(p, config), params.q_tiles);
  const auto longest = [&](std::int64_t otherwise) { return p.query_pieces ? kEndOfPositions : otherwise; };
  params.window_left =
      width_of(p.window_left, longest(p.mask == MaskKind::causal_top_left ? p.seqlen_q : p.seqlen_k));
  params.window_right = width_of(p.window_right, longest(p.seqlen_q));
  params.chunks = chunks_of(p);
  params.first_key = static_cast<int>(visible_rows(p).first);
  params.sequences.total_q = static_cast<int>(q_entries(p).rows);
  params.sequences.total_k = static_cast<int>(k_entries(p).rows);
  params.sequences.batch = static_cast<int>(p.batch);
  params.sequences.page_count = static_cast<int>(p.page_count);
  return params;
}

Strides ref(const TensorStrides& strides) {
  return {strides.batch, strides.head, strides.row};
}

HeadFactors factors_of(const float* data, const TensorStrides& strides) {
  return {data, strides.batch, strides.head};
}

void add_call(AttentionParams& params, const AttentionProblem& p, const AttentionArgs& args) {
  params.q = args.q;
  params.k = args.k;
  params.v = args.v;
  params.o = args.out;
  params.lse = args.lse;
  params.q_strides = ref(args.q_strides);
  params.k_strides = key_value_strides(p, args.k_strides);
  params.v_strides = key_value_strides(p, args.v_strides);
  params.o_strides = ref(args.out_strides);
  params.scale =
      args.softmax_scale ? *args.softmax_scale : static_cast<float>(1 / std::sqrt(double(p.head_dim)));
  params.scale_log2 = scale_log2(params.scale);
  params.signed_scale_log2 = std::copysign(params.scale_log2, params.scale);
  if (p.softcap) params.softcap = softcap_params(args.softcap, params.scale);
  params.alibi_batch_stride = args.alibi_slopes_per_batch ? p.heads_q : 0;
#define FA2_FILL_IN(name) params.name = args.name;
  FA2_HEAD_NUMBERS(FA2_FILL_IN)
#undef FA2_FILL_IN
  if (p.dropout) params.dropout = dropout_params(args.dropout);
  if (p.query_pieces) params.first_key = static_cast<int>(visible_rows(p, args.query_pieces).first);
  params.k_descale = factors_of(args.k_descale, args.k_descale_strides);
  params.v_descale = factors_of(args.v_descale, args.v_descale_strides);
  params.sequences.cu_seqlens_q = args.cu_seqlens_q;
  params.sequences.cu_seqlens_k = args.cu_seqlens_k;
  params.sequences.seqused_q = args.seqused_q;
  params.sequences.seqused_k = args.seqused_k;
  params.sequences.page_table = args.page_table;
  params.sequences.page_table_stride = args.page_table_stride;
  params.empty_row_lse = value_of(args.empty_row_lse);
}

float value_of(EmptyRowLse lse) {
  const float infinity = std::numeric_limits<float>::infinity();
  return lse == EmptyRowLse::positive_infinity ? infinity : -infinity;
}

HeadSections head_sections(const AttentionProblem& p, std::int64_t heads, std::int64_t per_section,
                           std::int64_t tiles) {
  // Each packed sequence has sections of its own.
  const std::int64_t all = p.varlen ? heads : p.batch * heads;
  const std::int64_t in_one = std::min(per_section, all), left = in_one > 0 ? all % in_one : 0;
  const auto divisor = [](std::int64_t value) { return divisor_of(static_cast<unsigned>(value)); };
  return {{divisor(in_one), divisor(left > 0 ? left : in_one)}, divisor(in_one * tiles), divisor(heads)};
}

int heads_per_section(const AttentionProblem& p, const KernelConfig& config) {
  // Tiles of the entries of a batch may share elements of a capture (EntriesFirst).
  const bool may_share = config.score_tiles != 0 && !p.varlen;
  if (p.mask == MaskKind::none) return may_share ? static_cast<int>(std::max<std::int64_t>(1, p.batch)) : 1;
  const std::int64_t group = p.heads_q / p.heads_kv / head_packing(p, config).heads,
                     groups = p.varlen ? p.heads_kv : p.batch * p.heads_kv;
  std::int64_t most_heads = 64;
  if (const std::int64_t section_bytes = kind_of(config).section_bytes; section_bytes > 0) {
    const std::int64_t head_bytes =
        std::max<std::int64_t>(1, p.seqlen_k * key_value_format(p).bytes_per_key() / group);
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
