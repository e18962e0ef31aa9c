// The tensors of each operation, as fa2/c_tensors.h numbers them: one row each.
#pragma once

#include <fa2/c_tensors.h>
#include <operation/operands/tensor_rows.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace fa2 {

inline constexpr Axis kEntry = Axis::entry, kHead = Axis::head, kRow = Axis::row, kColumn = Axis::column;

#define FA2_SIZE(problem, name, axis, least) \
  { #name, axis, least, offsetof(problem, name), sizeof(problem::name) }

namespace attention_tensors {

enum Size : std::size_t {
  kBatch,
  kHeadsQ,
  kHeadsKv,
  kHeadDim,
  kHeadDimV,
  kSeqlenQ,
  kSeqlenK,
  kTotalQ,
  kTotalK,
  kPageCount,
  kPageSize,
  kMaxPages
};

inline constexpr std::array<SizeRow, 12> kSizes{{
    FA2_SIZE(fa2_problem, batch, kEntry, 0),
    FA2_SIZE(fa2_problem, heads_q, kHead, 1),
    FA2_SIZE(fa2_problem, heads_kv, kHead, 1),
    FA2_SIZE(fa2_problem, head_dim, kColumn, 1),
    FA2_SIZE(fa2_problem, head_dim_v, kColumn, 1),
    FA2_SIZE(fa2_problem, seqlen_q, kRow, 0),
    FA2_SIZE(fa2_problem, seqlen_k, kRow, 0),
    FA2_SIZE(fa2_problem, total_q, kRow, 0),
    FA2_SIZE(fa2_problem, total_k, kRow, 0),
    FA2_SIZE(fa2_problem, page_count, kEntry, 0),
    FA2_SIZE(fa2_problem, page_size, kRow, 1),
    {"max_pages"},
}};

inline constexpr const char* kQueries =
    "(total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim)";
inline constexpr const char* kOutputs =
    "(total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim_v)";
inline constexpr const char* kKeys =
    "(total_k, heads_kv, head_dim) if cu_seqlens_k | (page_count, page_size, heads_kv, head_dim) if "
    "page_table | (batch, seqlen_k, heads_kv, head_dim)";
inline constexpr const char* kValues =
    "(total_k, heads_kv, head_dim_v) if cu_seqlens_k | (page_count, page_size, heads_kv, head_dim_v) if "
    "page_table | (batch, seqlen_k, heads_kv, head_dim_v)";
inline constexpr const char* kKeyGradients =
    "(total_k, heads_kv, head_dim) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim)";
inline constexpr const char* kValueGradients =
    "(total_k, heads_kv, head_dim_v) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim_v)";
inline constexpr const char* kSums = "(heads_q, total_q) if cu_seqlens_q | (batch, heads_q, seqlen_q)";

constexpr TensorText strided(const char* name, const char* shape, std::size_t field) {
  return {.name = name, .shape = shape, .field = static_cast<std::uint16_t>(field)};
}
constexpr TensorText output(const char* name, const char* shape, std::size_t field) {
  TensorText text = strided(name, shape, field);
  text.optional = text.written = true;
  return text;
}
constexpr TensorText numbers(const char* name, const char* shape, Element element, std::size_t field) {
  return {.name = name,
          .shape = shape,
          .element = element,
          .layout = Layout::contiguous,
          .optional = true,
          .field = static_cast<std::uint16_t>(field)};
}
constexpr TensorText written(TensorText text) {
  text.written = true;
  return text;
}
constexpr TensorText required(TensorText text) {
  text.optional = false;
  return text;
}
constexpr TensorText with(const char* other, TensorText text) {
  text.with = other;
  return text;
}
constexpr TensorText without(const char* other, TensorText text) {
  text.without = other;
  return text;
}
constexpr TensorText elsewhere(TensorText text) {
  text.elsewhere = true;
  return text;
}
constexpr TensorText page_table(std::size_t field, std::size_t stride) {
  TensorText text = numbers("page_table", "(batch, max_pages)", Element::i32, field);
  text.layout = Layout::rows;
  text.stride = static_cast<std::uint16_t>(stride);
  return text;
}

inline constexpr std::array<TensorText, FA2_ATTENTION_TENSORS> kForward{
    strided("q", kQueries, offsetof(fa2_args, q)),
    strided("k", kKeys, offsetof(fa2_args, k)),
    strided("v", kValues, offsetof(fa2_args, v)),
    output("out", kOutputs, offsetof(fa2_args, o)),
    written(numbers("lse", kSums, Element::f32, offsetof(fa2_args, lse))),
    numbers("alibi_slopes", "(heads_q) | (batch, heads_q)", Element::f32, offsetof(fa2_args, alibi_slopes)),
    numbers("sinks", "(heads_q)", Element::f32, offsetof(fa2_args, sinks)),
    numbers("dropout_state", "(2)", Element::i64, offsetof(fa2_args, dropout_state)),
    numbers("cu_seqlens_q", "(batch + 1)", Element::i32, offsetof(fa2_args, cu_seqlens_q)),
    without("page_table",
            numbers("cu_seqlens_k", "(batch + 1)", Element::i32, offsetof(fa2_args, cu_seqlens_k))),
    numbers("seqused_q", "(batch)", Element::i32, offsetof(fa2_args, seqused_q)),
    numbers("seqused_k", "(batch)", Element::i32, offsetof(fa2_args, seqused_k)),
    page_table(offsetof(fa2_args, page_table), offsetof(fa2_args, page_table_stride)),
};

constexpr std::array<TensorText, FA2_BACKWARD_TENSORS> backward_texts() {
  std::array<TensorText, FA2_BACKWARD_TENSORS> texts{};
  std::copy(kForward.begin(), kForward.end(), texts.begin());
  for (const int read : {FA2_OUT, FA2_LSE})
    texts[static_cast<std::size_t>(read)].optional = texts[static_cast<std::size_t>(read)].written = false;
  using Args = fa2_backward_args;
  const TensorText gradients[] = {
      strided("d_out", kOutputs, offsetof(Args, d_o)),
      numbers("d_lse", kSums, Element::f32, offsetof(Args, d_lse)),
      output("dq", kQueries, offsetof(Args, dq)),
      output("dk", kKeyGradients, offsetof(Args, dk)),
      output("dv", kValueGradients, offsetof(Args, dv)),
      with("sinks", written(numbers("d_sinks", "(heads_q)", Element::f32, offsetof(Args, d_sinks))))};
  std::transform(std::begin(gradients), std::end(gradients), texts.begin() + FA2_D_OUT, elsewhere);
  return texts;
}
inline constexpr auto kBackward = backward_texts();

inline constexpr auto kForwardRows = rows_of(kForward, kSizes);
inline constexpr auto kBackwardRows = rows_of(kBackward, kSizes);

inline constexpr std::array<TensorText, FA2_DROPOUT_MASK_TENSORS> kMask{
    required(written(numbers("mask", "(batch, heads_q, seqlen_q, seqlen_k)", Element::u8, kNowhere))),
    numbers("dropout_state", "(2)", Element::i64, offsetof(fa2_args, dropout_state)),
};
inline constexpr auto kMaskRows = rows_of(kMask, kSizes);

}  // namespace attention_tensors

namespace append_tensors {

using namespace attention_tensors;  // the words for rows

inline constexpr std::array<SizeRow, 15> kAppendSizes{{
    FA2_SIZE(fa2_append_problem, batch, kEntry, 0),
    FA2_SIZE(fa2_append_problem, heads_q, kHead, 1),
    FA2_SIZE(fa2_append_problem, heads_kv, kHead, 1),
    FA2_SIZE(fa2_append_problem, head_dim, kColumn, 1),
    FA2_SIZE(fa2_append_problem, head_dim_v, kColumn, 1),
    FA2_SIZE(fa2_append_problem, rotary_dim, Axis::other, 0),
    FA2_SIZE(fa2_append_problem, table_rows, Axis::other, 0),
    FA2_SIZE(fa2_append_problem, seqlen_q, kRow, 0),
    FA2_SIZE(fa2_append_problem, seqlen_new, kRow, 0),
    FA2_SIZE(fa2_append_problem, total_q, kRow, 0),
    FA2_SIZE(fa2_append_problem, total_new, kRow, 0),
    FA2_SIZE(fa2_append_problem, page_size, kRow, 1),
    FA2_SIZE(fa2_append_problem, cache_entries, kEntry, 0),
    FA2_SIZE(fa2_append_problem, cache_rows, kRow, 0),
    FA2_SIZE(fa2_append_problem, max_pages, Axis::other, 0),
}};

constexpr TensorText angles(const char* name, std::size_t field, std::size_t stride) {
  TensorText text = numbers(name, "(table_rows, rotary_dim / 2)", Element::half_or_f32, field);
  text.stride = static_cast<std::uint16_t>(stride);
  return text;
}
constexpr TensorText like(const char* other, TensorText text) {
  text.like = other;
  return text;
}
constexpr TensorText cache(const char* name, const char* shape, std::size_t field) {
  return written(strided(name, shape, field));
}

using Args = fa2_append_args;
inline constexpr std::array<TensorText, FA2_APPEND_TENSORS> kAppend{
    strided("k",
            "(total_new, heads_kv, head_dim) if cu_seqlens_new | (batch, seqlen_new, heads_kv, head_dim)",
            offsetof(Args, k_new)),
    strided("v",
            "(total_new, heads_kv, head_dim_v) if cu_seqlens_new | (batch, seqlen_new, heads_kv, head_dim_v)",
            offsetof(Args, v_new)),
    cache("k_cache",
          "(cache_entries, page_size, heads_kv, head_dim) if page_table | (cache_entries, cache_rows, "
          "heads_kv, head_dim)",
          offsetof(Args, k_cache)),
    cache("v_cache",
          "(cache_entries, page_size, heads_kv, head_dim_v) if page_table | (cache_entries, cache_rows, "
          "heads_kv, head_dim_v)",
          offsetof(Args, v_cache)),
    required(numbers("cache_seqlens", "(batch)", Element::i32, offsetof(Args, seqlens))),
    without("page_table",
            numbers("cache_batch_idx", "(batch)", Element::i32, offsetof(Args, cache_batch_idx))),
    page_table(offsetof(Args, page_table), offsetof(Args, page_table_stride)),
    numbers("cu_seqlens_new", "(batch + 1)", Element::i32, offsetof(Args, cu_seqlens_new)),
    with("q", numbers("cu_seqlens_q", "(batch + 1)", Element::i32, offsetof(Args, cu_seqlens_q))),
    angles("rotary_cos", offsetof(Args, cos), offsetof(Args, table_stride)),
    with("rotary_cos", like("rotary_cos", required(angles("rotary_sin", offsetof(Args, sin), kNowhere)))),
    with("rotary_cos", numbers("rotary_seqlens", "(batch)", Element::i32, offsetof(Args, rotary_seqlens))),
    with("rotary_cos", {.name = "q", .shape = kQueries, .optional = true, .field = offsetof(Args, q)}),
    with("q", cache("q_out", kQueries, offsetof(Args, q_out))),
};
inline constexpr auto kAppendRows = rows_of(kAppend, kAppendSizes);

}  // namespace append_tensors

namespace combine_tensors {

using namespace attention_tensors;

enum CombineSize : std::size_t { kParts, kCombineBatch };
inline constexpr std::array<SizeRow, 5> kCombineSizes{{
    FA2_SIZE(fa2_combine_problem, parts, Axis::part, 0),
    FA2_SIZE(fa2_combine_problem, batch, kEntry, 0),
    FA2_SIZE(fa2_combine_problem, seqlen, kRow, 0),
    FA2_SIZE(fa2_combine_problem, heads, kHead, 0),
    FA2_SIZE(fa2_combine_problem, head_dim, kColumn, 0),
}};

using CombineArgs = fa2_combine_args;
inline constexpr std::array<TensorText, FA2_COMBINE_TENSORS> kCombine{{
    {.name = "out_parts",
     .shape = "(parts, batch, seqlen, heads, head_dim) | (parts, seqlen, heads, head_dim)",
     .element = Element::half_or_f32,
     .field = offsetof(CombineArgs, parts),
     .stride = offsetof(CombineArgs, part_stride)},
    {.name = "lse_parts",
     .shape = "(parts, batch, heads, seqlen) if batch | (parts, heads, seqlen)",
     .element = Element::f32,
     .field = offsetof(CombineArgs, lse_parts),
     .stride = offsetof(CombineArgs, lse_part_stride)},
    {.name = "out",
     .shape = "(batch, seqlen, heads, head_dim) if batch | (seqlen, heads, head_dim)",
     .element = Element::half_or_f32,
     .written = true,
     .field = offsetof(CombineArgs, o)},
    written(numbers("lse", "(batch, heads, seqlen) if batch | (heads, seqlen)", Element::f32,
                    offsetof(CombineArgs, lse))),
}};
inline constexpr auto kCombineRows = rows_of(kCombine, kCombineSizes);

}  // namespace combine_tensors

#undef FA2_SIZE

inline constexpr TensorTable kAttentionTable =
    table_of(attention_tensors::kSizes, attention_tensors::kForward, attention_tensors::kForwardRows);
inline constexpr TensorTable kBackwardTable =
    table_of(attention_tensors::kSizes, attention_tensors::kBackward, attention_tensors::kBackwardRows);
inline constexpr TensorTable kDropoutMaskTable =
    table_of(attention_tensors::kSizes, attention_tensors::kMask, attention_tensors::kMaskRows);
inline constexpr TensorTable kAppendTable =
    table_of(append_tensors::kAppendSizes, append_tensors::kAppend, append_tensors::kAppendRows);
inline constexpr TensorTable kCombineTable =
    table_of(combine_tensors::kCombineSizes, combine_tensors::kCombine, combine_tensors::kCombineRows);

}  // namespace fa2
