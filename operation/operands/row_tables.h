// The tensors of the operations that few files name, in the order of the enumerations in fa2/c_call.h. Apart from tensor_tables.h,
// because every file that includes a table takes its time to make it.
#pragma once

#include <fa2/append.h>
#include <fa2/args.h>
#include <fa2/merge.h>
#include <fa2/problem.h>
#include <operation/operands/tensor_table.h>

namespace fa2 {

/// The mask is not a member of a struct, but an argument of fa2_dropout_mask().
constexpr TensorTable dropout_mask_tensors() {
  TensorTable table = sizes_of<AttentionProblem>();
  table.dtype = kNowhere;  // no tensor has it
  const RowText mask{.name = "mask",
                     .help = "1 where a probability is kept, else 0",
                     .shape = "(batch, heads_q, seqlen_q, seqlen_k)"};
  table.tensors.add({.element = ElementType::u8, .is_written = true, .text = mask});
  table.tensors.add(tensor_of<AttentionArgs>(row_index<AttentionArgs>("dropout.state")));
  return table;
}

constexpr TensorTable append_tensors() {
  TensorTable table = sizes_of<AppendProblem>();
  add_tensors<AppendProblem, AppendArgs>(table);
  return table;
}

constexpr TensorTable merge_tensors() {
  TensorTable table = sizes_of<MergeProblem>();
  add_tensors<MergeProblem, MergeArgs>(table);
  return table;
}

inline constexpr TensorTable kDropoutMaskTable = finished(dropout_mask_tensors());
inline constexpr TensorTable kAppendTable = finished(append_tensors());
inline constexpr TensorTable kMergeTable = finished(merge_tensors());

}  // namespace fa2
