// Calls of the C interface by tensors that have shapes, for tests: valid ones, to be spoilt.
#pragma once

#include <fa2/c_tensors.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace fa2::test {

using Extents = std::vector<std::int64_t>;

/// Contiguous, at an address of its own that is a multiple of 256, on the interpreter's device.
fa2_array described(std::int32_t dtype, const Extents& shape);

/// An operation's tensors by their numbers, and what a binding of them writes.
struct DescribedCall {
  enum Operation { attention, backward, append, merge, dropout_mask };

  std::string name;
  Operation operation = attention;
  std::array<fa2_array, FA2_BACKWARD_TENSORS> tensors{};
  std::array<bool, FA2_BACKWARD_TENSORS> is_given{};
  /// Tensors that are written.
  std::vector<int> outputs;
  /// (tensor, dimension) whose extent no other tensor has: any is right.
  std::vector<std::array<int, 2>> free_extents;

  fa2_problem problem = FA2_PROBLEM_INIT;
  fa2_args args = FA2_ARGS_INIT;
  fa2_backward_args backward_args = FA2_BACKWARD_ARGS_INIT;
  fa2_append_problem append_problem = FA2_APPEND_PROBLEM_INIT;
  fa2_append_args append_args = FA2_APPEND_ARGS_INIT;
  fa2_merge_problem merge_problem = FA2_MERGE_PROBLEM_INIT;
  fa2_merge_args merge_args = FA2_MERGE_ARGS_INIT;
  fa2_placement place = {-7, -7};

  DescribedCall& give(int tensor, std::int32_t dtype, const Extents& shape);
  DescribedCall& leave_out(int tensor);
  fa2_array& operator[](int tensor) { return tensors[static_cast<std::size_t>(tensor)]; }
  bool has(int tensor) const { return is_given[static_cast<std::size_t>(tensor)]; }
  int count() const;
  bool writes(int tensor) const;
  bool is_free(int tensor, int dimension) const;

  fa2_status bind();
  /// The bytes of all structs that a binding may write.
  std::string written() const;
};

/// f16, two sequences: q has 4 heads of 16 columns, k and v 2 heads of 16 and 8.
DescribedCall dense_attention();
/// Packed q, with lse and every table; packed k and v.
DescribedCall packed_attention();
/// Batched q, k and v in pages.
DescribedCall paged_attention();
DescribedCall dense_backward();
DescribedCall packed_backward();
/// Batched, with rotary tables and q.
DescribedCall dense_append();
/// Packed new rows and q, into pages.
DescribedCall packed_append();
DescribedCall batched_merge();
DescribedCall packed_merge();
DescribedCall described_dropout_mask();

/// All of these.
std::vector<DescribedCall> described_calls();

/// The message of a call that `change` spoils.
std::string complaint(DescribedCall call, const std::function<void(DescribedCall&)>& change);

bool has(const std::string& text, const std::string& part);

}  // namespace fa2::test
