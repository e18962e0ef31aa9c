// Valid calls of the C interface, with tensors described by shape, for tests to spoil.
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

/// Returns a contiguous tensor on the interpreter's device. Every address is different, and a multiple of
/// 256.
fa2_array described(std::int32_t dtype, const Extents& shape);

/// The tensors of an operation, by number, and the structs that a binding writes.
struct DescribedCall {
  enum Operation { attention, backward, append, merge, dropout_mask };

  std::string name;
  Operation operation = attention;
  std::array<fa2_array, FA2_BACKWARD_TENSORS> tensors{};
  std::array<bool, FA2_BACKWARD_TENSORS> is_given{};
  /// Tensors that the operation writes.
  std::vector<int> outputs;
  /// (tensor, dimension) pairs whose extent is free, because no other tensor has it.
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
  /// Returns the bytes of all structs that a binding may write.
  std::string written() const;
};

/// Returns an f16 call with two sequences: q has 4 heads of 16 columns, k and v have 2 heads of 16 and 8.
DescribedCall dense_attention();
/// Returns a call with packed q, k and v, lse and every table.
DescribedCall packed_attention();
/// Returns a call with batched q, and k and v in pages.
DescribedCall paged_attention();
DescribedCall dense_backward();
DescribedCall packed_backward();
/// Returns a batched call with rotary tables and q.
DescribedCall dense_append();
/// Returns a call with packed new rows and q, into pages.
DescribedCall packed_append();
DescribedCall batched_merge();
DescribedCall packed_merge();
DescribedCall described_dropout_mask();

/// Returns all of these calls.
std::vector<DescribedCall> described_calls();

/// Returns the message about a call that `change` has spoilt.
std::string complaint(DescribedCall call, const std::function<void(DescribedCall&)>& change);

bool has(const std::string& text, const std::string& part);

}  // namespace fa2::test
