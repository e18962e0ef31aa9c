// Tensor maps of rank 5: columns of a group, rows, groups, heads, batches. Of Q and O: columns, heads that share tiles, rows, groups
// of such heads, batches.
#include <generator/head_packing.h>
#include <generator/kernel_kind.h>
#include <generator/kernels/rules.h>
#include <generator/key_value_format.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>
#include <operation/operands/captured_bytes.h>
#include <planning/tensor_maps.h>
#include <runtime/tensor_map.h>

#include <numeric>

namespace fa2 {
namespace {

/// Returns the swizzle that tile/swizzled_tile.cuh uses for such rows: the widest whose span divides a row in shared memory.
Swizzle swizzle_for(int row_bytes) {
  if (row_bytes % 128 == 0) return Swizzle::span128;
  return row_bytes % 64 == 0 ? Swizzle::span64 : Swizzle::span32;
}
Swizzle swizzle_for(const Operand& t) {
  return swizzle_for(padded_dim(static_cast<int>(t.extents[3])) * bytes_of(t.element));
}

/// The rows of each head that a map shows.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Returns the map of a tensor. With `by_groups`, a box is always one group of columns.
TensorMap map_of(const Operand& t, const RowRange& rows, std::int32_t box_rows, bool by_groups = false) {
  const auto [batch_stride, head_stride, row_stride] = t.strides;
  const std::int32_t dim = static_cast<std::int32_t>(t.extents[3]);
  TensorMapSpec spec;
  spec.element = t.element;
  spec.swizzle = swizzle_for(t);
  const int bytes = bytes_of(t.element), group = span_of(spec.swizzle) / bytes;
  spec.data = static_cast<std::byte*>(const_cast<void*>(t.data)) + rows.first * row_stride * bytes;
  // Otherwise a box is one group, so that TMA sees where the row ends.
  const bool whole_groups = dim % group == 0 && !by_groups;
  spec.dimensions[0] = {whole_groups ? group : dim, 0, group};
  spec.dimensions[1] = {rows.count, row_stride * bytes, box_rows};
  if (whole_groups) spec.dimensions[2] = {dim / group, group * bytes, dim / group};
  spec.dimensions[3] = {t.extents[1], head_stride * bytes, 1};
  spec.dimensions[4] = {t.extents[0], batch_stride * bytes, 1};
  return encode_tensor_map(spec);
}

/// Returns the map of Q or O (tile/tma_copy.cuh, PackedShape).
TensorMap packed_map_of(const Operand& t, std::int64_t queries, const HeadPacking& packing) {
  const auto [batch_stride, head_stride, row_stride] = t.strides;
  TensorMapSpec spec;
  spec.element = t.element;
  spec.swizzle = swizzle_for(t);
  const int bytes = bytes_of(t.element);
  spec.data = const_cast<void*>(t.data);
  spec.dimensions[0] = {t.extents[3], 0, span_of(spec.swizzle) / bytes};
  spec.dimensions[1] = {packing.heads, head_stride * bytes, packing.box_heads};
  spec.dimensions[2] = {queries, row_stride * bytes, packing.queries};
  spec.dimensions[3] = {t.extents[1] / packing.heads, packing.heads * head_stride * bytes, 1};
  spec.dimensions[4] = {t.extents[0], batch_stride * bytes, 1};
  return encode_tensor_map(spec);
}

/// Returns the map of a tensor whose rows end with their sequence (tile/tma_copy.cuh, RaggedShape). A row is the sum of two
/// dimensions, the first of which begins `longest` rows before the tensor. No copy reads an element before the tensor.
TensorMap ragged_map_of(const Operand& t, std::int64_t longest, std::int32_t box_rows) {
  const auto [batch_stride, head_stride, given_row_stride] = t.strides;
  const std::int32_t dim = static_cast<std::int32_t>(t.extents[3]);
  const int bytes = bytes_of(t.element);
  const std::int64_t row_stride =
      t.extents[2] > 1 ? given_row_stride : dim;  // a single row may have any stride
  TensorMapSpec spec;
  spec.element = t.element;
  spec.swizzle = swizzle_for(t);
  spec.data =
      reinterpret_cast<void*>(t.address() - static_cast<std::uintptr_t>(longest * row_stride * bytes));
  spec.dimensions[0] = {dim, 0, span_of(spec.swizzle) / bytes};
  spec.dimensions[1] = {longest, row_stride * bytes, box_rows};
  spec.dimensions[2] = {t.extents[2] + 1, row_stride * bytes, 1};
  spec.dimensions[3] = {t.extents[1], head_stride * bytes, 1};
  spec.dimensions[4] = {t.extents[0], batch_stride * bytes, 1};
  return encode_tensor_map(spec);
}

}  // namespace

void fill_tensor_maps(const AttentionProblem& p, const KernelConfig& config, OperandList operands,
                      AttentionParamsSm90& params, const QueryPieces& pieces) {
  const std::int64_t queries = q_entries(p).rows;
  params.q = packed_map_of(operands[Role::q], queries, params.attention.packing);
  if (!p.float32_out)
    params.o =
        packed_map_of(operands[Role::out], queries, params.attention.packing);  // else warps store rows
  if (p.seqlen_k == 0) return;                  // the kernel loads neither, and both may be null
  if (gathers_keys(p) || has_bytes(p)) return;  // warps copy rows
  if (p.page_size > 0) {
    const std::int32_t box_rows = std::gcd(p.page_size, config.tile_n);
    params.k = map_of(operands[Role::k], {0, p.page_size}, box_rows, true);
    params.v = map_of(operands[Role::v], {0, p.page_size}, box_rows, true);
    return;
  }
  const VisibleRows visible = visible_rows(p, pieces);
  // Rows of V that no query sees must not be loaded.
  const auto map = [&](Role role, bool holds_values) {
    return p.varlen && holds_values ? ragged_map_of(operands[role], p.seqlen_k, config.tile_n)
                                    : map_of(operands[role], {visible.first, visible.count}, config.tile_n);
  };
  params.k = map(Role::k, p.values_in_keys);
  params.v = map(Role::v, true);
}

void fill_tensor_maps(const AttentionProblem& p, const KernelConfig& config, OperandList operands,
                      BackwardParamsSm90& params, const QueryPieces& pieces) {
  constexpr std::int32_t kKeysOfWarpgroup = 64;
  const auto map = [&](Role role, const RowRange& rows, std::int32_t box_rows) {
    return p.varlen ? ragged_map_of(operands[role], rows.count, box_rows)
                    : map_of(operands[role], rows, box_rows);
  };
  const RowRange keys{0, p.seqlen_k}, queries{0, p.seqlen_q};
  const auto [first, count] =
      p.seqlen_q > 0 && !p.varlen ? visible_rows(p, pieces) : VisibleRows{0, keys.count};
  params.k = map(Role::k, {first, count}, kKeysOfWarpgroup);
  params.v = map(Role::v, {first, count}, kKeysOfWarpgroup);
  if (!p.float32_dk_dv) {  // else warps store rows
    params.dk = map(Role::dk, keys, kKeysOfWarpgroup);
    params.dv = map(Role::dv, keys, kKeysOfWarpgroup);
  }
  if (p.seqlen_q == 0) return;  // the kernel loads neither, and both may be null
  params.q = map(Role::q, queries, config.tile_n);
  params.d_o = map(Role::d_out, queries, config.tile_n);
}

TensorMap map_of_scores(const KernelConfig& config, const CaptureSpec& spec, const ScoreCapture& capture) {
  constexpr std::int32_t kRowsOfWarpgroup = 64;
  const bool has_key_rows = sums_dq(pass_of(config));
  const std::int32_t queries = has_key_rows ? config.tile_n : kRowsOfWarpgroup;
  const std::int32_t keys = has_key_rows ? kRowsOfWarpgroup : config.tile_n;
  const int bytes = bytes_of(spec.type);
  TensorMapSpec map;
  map.data = const_cast<void*>(capture.data);
  map.element = static_cast<ElementType>(spec.type);
  map.swizzle = swizzle_for(keys * bytes);
  map.dimensions[0] = {capture.sizes[3], 0, span_of(map.swizzle) / bytes};
  map.dimensions[1] = {capture.sizes[2], capture.strides[2] * bytes, queries};
  for (const int i : {0, 1})
    if (capture.strides[i] != 0) map.dimensions[3 - i] = {capture.sizes[i], capture.strides[i] * bytes, 1};
  return encode_tensor_map(map);
}

}  // namespace fa2
