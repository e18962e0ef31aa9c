// Merges attention over disjoint sets of keys into attention over all of them.
#pragma once

#include <fa2/args.h>
#include <fa2/problem.h>

#include <cstdint>

namespace fa2 {

/// What merge() computes. Each part is the output of attention over one of several disjoint sets of keys, with its LSE; all parts
/// have the same queries. The result is attention over all keys. Context parallelism, shared prefixes and split KV need this
/// (FlashAttention-2, section 2.3.1, the rescaling of one block by the next).
struct MergeProblem {
  DType dtype = DType::f16;             ///< of the parts and of O, unless they are float32
  bool float32_parts = false;           ///< whether the parts are float32
  bool float32_output = false;          ///< whether O is float32
  LseBase lse_base = LseBase::natural;  ///< the base of all LSE, of the parts and of the result
  std::int32_t head_dim = 128;          ///< columns of O; a multiple of 8, 8..512
  std::int64_t parts = 1;               ///< partial outputs; >= 1
  std::int64_t batch = 1;               ///< sequences; 1 if they are packed
  std::int64_t heads = 1;               ///< query heads
  std::int64_t seqlen = 1;              ///< queries; if packed, those of all sequences

  /// A row per member.
  template <class Take>
  static constexpr auto rows(const Take& take) {
    using P = MergeProblem;
    return take(
        row("dtype", &P::dtype).help("element type of the parts and of O, unless they are float32"),
        row("float32_parts", &P::float32_parts).help("the parts are float32"),
        row("float32_output", &P::float32_output).help("O is float32"),
        row("lse_base", &P::lse_base)
            .option("lse_base")
            .help("the base of the logarithm in LSE, of the parts and of the result"),
        row("head_dim", &P::head_dim)
            .along(Axis::column, 0)
            .help("head dimension of O, a multiple of 8 in 8..512"),
        row("parts", &P::parts).sizes(Axis::part).help("partial outputs; at least 1"),
        row("batch", &P::batch).sizes(Axis::entry).help("sequences; 1 if they are packed"),
        row("heads", &P::heads).sizes(Axis::head).help("query heads"),
        row("seqlen", &P::seqlen).sizes(Axis::row).help("queries; of all sequences if they are packed"));
  }

  FA2_API friend bool operator==(const MergeProblem&, const MergeProblem&);
  friend bool operator!=(const MergeProblem& a, const MergeProblem& b) { return !(a == b); }
};

/// The data of one call: pointers to memory of the current device. Strides are in elements.
struct MergeArgs {
  /// (parts, batch, head, row, head_dim), each normalised, as attention() writes O. A row for which a part has no key may hold
  /// anything, even NaN. Two parts may lie in different allocations: `part_stride` is then their distance.
  const void* parts = nullptr;
  std::int64_t part_stride = 0;
  TensorStrides parts_strides;
  /// float32 (parts, batch, head, row), logarithms to the problem's lse_base, as attention() writes LSE. For a row without a key,
  /// +infinity or -infinity.
  const float* lse_parts = nullptr;
  std::int64_t lse_part_stride = 0;
  TensorStrides lse_parts_strides;

  void* out = nullptr;
  TensorStrides out_strides;
  float* lse = nullptr;  ///< optional float32 (batch, heads, seqlen), contiguous
  EmptyRowLse empty_row_lse =
      EmptyRowLse::positive_infinity;  ///< the LSE of a row for which no part has a key; its O is 0

  /// A row per member.
  template <class Take>
  static constexpr auto rows(const Take& take) {
    using A = MergeArgs;
    return take(row("parts", &A::parts, &A::parts_strides)
                    .tensor("out_parts")
                    .shape("(parts, batch, seqlen, heads, head_dim) | (parts, seqlen, heads, head_dim)")
                    .stride("part_stride")
                    .or_type("float32", "float32_parts")
                    .help("partial outputs, each normalised"),
                row("part_stride", &A::part_stride).help("elements from one partial output to the next"),
                row("lse_parts", &A::lse_parts, &A::lse_parts_strides)
                    .shape("(parts, batch, heads, seqlen) if batch | (parts, heads, seqlen)")
                    .stride("lse_part_stride")
                    .help("log-sum-exp of each part's rows, to the base lse_base; either infinity for a row "
                          "without a key"),
                row("lse_part_stride", &A::lse_part_stride)
                    .help("elements from one part's log-sum-exp to the next one's"),
                row("out", &A::out, &A::out_strides)
                    .shape("(batch, seqlen, heads, head_dim) if batch | (seqlen, heads, head_dim)")
                    .or_type("float32", "float32_output")
                    .help("the merged output"),
                row("lse", &A::lse)
                    .shape("(batch, heads, seqlen) if batch | (heads, seqlen)")
                    .optional()
                    .help("log-sum-exp of each merged row"),
                row("empty_row_lse", &A::empty_row_lse)
                    .help("the LSE of a row for which no part has a key; its O is 0"));
  }
};

/// Calls Context::default_context().merge(). JitMode::off needs a kernel pack that was made with PrecompileOptions::merge. There is
/// one kernel per dtype, head dim and RowAlignment: bytes16 if the rows of parts and O are 16-byte aligned, else element.
FA2_API void merge(const MergeProblem& problem, const MergeArgs& args, Stream stream = nullptr);

}  // namespace fa2
