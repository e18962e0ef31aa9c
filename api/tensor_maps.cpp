// Rank 5: columns of a group, rows, groups, heads, batches; or, with heads packed into a tile, columns,
// packed heads, rows, heads, batches.
#include <api/tensor_maps.h>
#include <generator/rules/rules.h>
#include <runtime/tensor_map.h>

#include <algorithm>

namespace fa2 {
namespace {

struct Rows {
  void* data;
  std::int64_t batch, heads, rows;
  std::int32_t dim;
  TensorStrides strides;  ///< elements
};

/// As wide as tile/swizzled_tile.cuh lays a row out.
Swizzle swizzle_for(int padded) {
  if (padded % 64 == 0) return Swizzle::span128;
  return padded % 32 == 0 ? Swizzle::span64 : Swizzle::span32;
}

TensorMap map_of(const Rows& t, TensorElement element, std::int32_t box_rows, std::int32_t packed_heads = 1) {
  TensorMapSpec spec;
  spec.data = t.data;
  spec.element = element;
  spec.swizzle = swizzle_for(padded_dim(t.dim));
  const std::int32_t group = span_of(spec.swizzle) / 2;
  const std::int64_t bytes = bytes_of(element), rows = std::max<std::int64_t>(t.rows, 1);
  // Else a box a group, so that TMA sees where the row ends.
  const bool whole_groups = t.dim % group == 0 && packed_heads == 1;
  spec.dimensions[0] = {whole_groups ? group : t.dim, 0, group};
  if (packed_heads > 1) {
    spec.dimensions[1] = {packed_heads, t.strides.head * bytes, packed_heads};
    spec.dimensions[2] = {rows, t.strides.row * bytes, box_rows / packed_heads};
  } else {
    spec.dimensions[1] = {rows, t.strides.row * bytes, box_rows};
    if (whole_groups) spec.dimensions[2] = {t.dim / group, group * bytes, t.dim / group};
  }
  spec.dimensions[3] = {t.heads / packed_heads, packed_heads * t.strides.head * bytes, 1};
  spec.dimensions[4] = {t.batch, t.strides.batch * bytes, 1};
  return encode_tensor_map(spec);
}

/// Keys that some query sees: with one diagonal for all lengths those beyond the last query's are out of
/// sight, and may hold anything.
std::int64_t visible_keys(const AttentionProblem& p) {
  return p.mask == MaskKind::causal_top_left ? std::min(p.seqlen_k, p.seqlen_q) : p.seqlen_k;
}

}  // namespace

void fill_tensor_maps(const AttentionProblem& p, const KernelConfig& config, const AttentionArgs& args,
                      AttentionParamsSm90& params) {
  constexpr std::int32_t kQueriesOfWarpgroup = 64;
  const TensorElement element = p.dtype == DType::f16 ? TensorElement::f16 : TensorElement::bf16;
  params.q = map_of({const_cast<void*>(args.q), p.batch, p.heads_q, p.seqlen_q, p.head_dim, args.q_strides},
                    element, kQueriesOfWarpgroup, config.packed_heads);
  params.o = map_of({args.o, p.batch, p.heads_q, p.seqlen_q, p.head_dim_v, args.o_strides}, element,
                    kQueriesOfWarpgroup, config.packed_heads);
  if (p.seqlen_k == 0) return;  // nobody loads them, and they may be null
  params.k =
      map_of({const_cast<void*>(args.k), p.batch, p.heads_kv, visible_keys(p), p.head_dim, args.k_strides},
             element, config.tile_n);
  params.v =
      map_of({const_cast<void*>(args.v), p.batch, p.heads_kv, visible_keys(p), p.head_dim_v, args.v_strides},
             element, config.tile_n);
}

}  // namespace fa2
