// Structs of the C interface about parts of the keys and caches.
#include <api/c_fields.h>
#include <api/c_structs.h>

namespace fa2 {

std::optional<MergeProblem> problem_of(const fa2_combine_problem* pointer, Found& found) {
  const auto from = read_struct(pointer, "problem", found);
  if (!from) return std::nullopt;
  check_reserved(from->reserved, "reserved", found);
  return MergeProblem{.dtype = enum_of<DType>(from->dtype, "dtype", found),
                      .float32_parts = from->float32_parts != 0,
                      .float32_output = from->float32_output != 0,
                      .head_dim = from->head_dim,
                      .parts = from->parts,
                      .batch = from->batch,
                      .heads = from->heads,
                      .seqlen = from->seqlen};
}

std::optional<MergeArgs> args_of(const fa2_combine_args* pointer, Found& found) {
  const auto from = read_struct(pointer, "args", found);
  if (!from) return std::nullopt;
  return MergeArgs{.parts = from->parts.data,
                   .part_stride = from->part_stride,
                   .parts_strides = strides_of(from->parts),
                   .lse_parts = static_cast<const float*>(from->lse_parts.data),
                   .lse_part_stride = from->lse_part_stride,
                   .lse_parts_strides = strides_of(from->lse_parts),
                   .o = from->o.data,
                   .o_strides = strides_of(from->o),
                   .lse = from->lse,
                   .empty_row_lse = enum_of<EmptyRowLse>(from->empty_row_lse, "empty_row_lse", found)};
}

std::optional<AppendProblem> problem_of(const fa2_append_problem* pointer, Found& found) {
  const auto from = read_struct(pointer, "problem", found);
  if (!from) return std::nullopt;
  return AppendProblem{.dtype = enum_of<DType>(from->dtype, "dtype", found),
                       .head_dim = from->head_dim,
                       .head_dim_v = from->head_dim_v,
                       .rotary_dim = from->rotary_dim,
                       .rotary_style = enum_of<RotaryStyle>(from->rotary_style, "rotary_style", found),
                       .float32_tables = from->float32_tables != 0,
                       .table_rows = from->table_rows,
                       .causal_positions = from->equal_positions == 0,
                       .batch = from->batch,
                       .heads_q = from->heads_q,
                       .heads_kv = from->heads_kv,
                       .seqlen_q = from->seqlen_q,
                       .seqlen_new = from->seqlen_new,
                       .total_q = from->total_q,
                       .total_new = from->total_new,
                       .page_size = from->page_size,
                       .cache_entries = from->cache_entries,
                       .cache_rows = from->cache_rows,
                       .max_pages = from->max_pages};
}

std::optional<AppendArgs> args_of(const fa2_append_args* pointer, Found& found) {
  const auto from = read_struct(pointer, "args", found);
  if (!from) return std::nullopt;
  check_reserved(from->reserved, "reserved", found);
  return AppendArgs{.k_new = from->k_new.data,
                    .v_new = from->v_new.data,
                    .k_new_strides = strides_of(from->k_new),
                    .v_new_strides = strides_of(from->v_new),
                    .k_cache = from->k_cache.data,
                    .v_cache = from->v_cache.data,
                    .k_cache_strides = strides_of(from->k_cache),
                    .v_cache_strides = strides_of(from->v_cache),
                    .seqlens = from->seqlens,
                    .cache_batch_idx = from->cache_batch_idx,
                    .page_table = from->page_table,
                    .page_table_stride = from->page_table_stride,
                    .cu_seqlens_new = from->cu_seqlens_new,
                    .cu_seqlens_q = from->cu_seqlens_q,
                    .cos = from->cos,
                    .sin = from->sin,
                    .table_stride = from->table_stride,
                    .rotary_seqlens = from->rotary_seqlens,
                    .q = from->q.data,
                    .q_out = from->q_out.data,
                    .q_strides = strides_of(from->q),
                    .q_out_strides = strides_of(from->q_out)};
}

}  // namespace fa2
