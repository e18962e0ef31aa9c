// Fills in the problems.
#include "problems.h"

namespace example {
namespace {

fa2::AttentionProblem attention_of(const ModelShape& shape, std::int64_t layer) {
  fa2::AttentionProblem problem;
  problem.dtype = fa2::DType::bf16;
  problem.mask = fa2::MaskKind::causal_bottom_right;  // the last query of a sequence sees all of its keys
  problem.head_dim = static_cast<std::int32_t>(shape.head_dim);
  problem.heads_q = shape.heads_q;
  problem.heads_kv = shape.heads_kv;
  problem.softcap = shape.softcap > 0;
  if (shape.has_window(layer)) problem.window_left = shape.window - 1;
  return problem;
}

fa2::AppendProblem append_of(const ModelShape& shape, std::int64_t table_rows) {
  fa2::AppendProblem problem;
  problem.dtype = fa2::DType::bf16;
  problem.head_dim = problem.rotary_dim = static_cast<std::int32_t>(shape.head_dim);
  problem.rotary_style = fa2::RotaryStyle::halves;
  problem.float32_tables = true;
  problem.table_rows = table_rows;
  problem.heads_q = shape.heads_q;  // the same launch rotates queries
  problem.heads_kv = shape.heads_kv;
  return problem;
}

}  // namespace

fa2::AttentionProblem paged_attention(const ModelShape& shape, const EngineLimits& limits,
                                      const StepBounds& bounds, std::int64_t layer, bool batch_invariant) {
  fa2::AttentionProblem problem = attention_of(shape, layer);
  problem.varlen = true;
  problem.batch_invariant = batch_invariant;
  problem.page_size = static_cast<std::int32_t>(limits.page_size);
  problem.page_count = limits.pages;
  problem.batch = bounds.sequences;
  problem.seqlen_q = bounds.most;
  problem.total_q = bounds.tokens;
  problem.seqlen_k = limits.longest;
  return problem;
}

fa2::AppendProblem paged_append(const ModelShape& shape, const EngineLimits& limits,
                                const StepBounds& bounds) {
  fa2::AppendProblem problem = append_of(shape, limits.longest);
  problem.batch = bounds.sequences;
  problem.total_q = problem.total_new = bounds.tokens;
  problem.page_size = limits.page_size;
  problem.cache_entries = limits.pages;
  problem.max_pages = limits.max_pages();
  return problem;
}

fa2::AttentionProblem whole_attention(const ModelShape& shape, std::int64_t tokens, std::int64_t layer) {
  fa2::AttentionProblem problem = attention_of(shape, layer);
  problem.seqlen_q = problem.seqlen_k = tokens;
  return problem;
}

fa2::AppendProblem whole_append(const ModelShape& shape, std::int64_t tokens, std::int64_t table_rows) {
  fa2::AppendProblem problem = append_of(shape, table_rows);
  problem.seqlen_q = problem.seqlen_new = problem.cache_rows = tokens;
  return problem;
}

}  // namespace example
