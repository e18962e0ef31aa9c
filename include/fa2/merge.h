// Attention over parts of the keys, merged to attention over all of them.
#pragma once

#include <fa2/args.h>
#include <fa2/problem.h>

#include <cstdint>

namespace fa2 {

/// What merge() computes: of the outputs of attention of the same queries over so many disjoint sets of keys, with their
/// log-sum-exps, that over all keys. Context parallelism, shared prefixes and split keys come to this (FlashAttention-2,
/// section 2.3.1, the rescaling of one block by the next).
struct MergeProblem {
  DType dtype = DType::f16;     ///< of the parts and of O, where they are not float32
  bool float32_parts = false;   ///< the parts are float32
  bool float32_output = false;  ///< O is float32
  std::int32_t head_dim = 128;  ///< of O: a multiple of 8 in 8..256
  std::int64_t parts = 1;       ///< at least 1
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t seqlen = 1;  ///< queries; all of them where sequences are packed, whose batch is 1

  FA2_API friend bool operator==(const MergeProblem&, const MergeProblem&);
  friend bool operator!=(const MergeProblem& a, const MergeProblem& b) { return !(a == b); }
};

/// One call's data. Device pointers of the current device. Strides are in ELEMENTS.
struct MergeArgs {
  /// (parts, batch, head, row, head_dim), each normalised, as attention() writes O. Of a part and row without a key any
  /// values: NaN there does not matter. Two parts in allocations of their own are `part_stride` apart.
  const void* parts = nullptr;
  std::int64_t part_stride = 0;
  TensorStrides parts_strides;
  /// float32 (parts, batch, head, row), natural logarithms, as attention() writes LSE: of a row without a key either infinity.
  const float* lse_parts = nullptr;
  std::int64_t lse_part_stride = 0;
  TensorStrides lse_parts_strides;

  void* o = nullptr;
  TensorStrides o_strides;
  float* lse = nullptr;  ///< optional float32 (batch, heads, seqlen), contiguous
  EmptyRowLse empty_row_lse =
      EmptyRowLse::positive_infinity;  ///< of rows that no part has a key of; their O is 0
};

/// Context::default_context().merge(...). With JitMode::off its kernel comes from a pack made with PrecompileOptions::merge: one
/// of the dtype, the head dim, and of whether rows of parts and O are aligned to 16 bytes (RowAlignment::bytes16, else element).
FA2_API void merge(const MergeProblem& problem, const MergeArgs& args, Stream stream = nullptr);

}  // namespace fa2
