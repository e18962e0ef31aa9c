// The tensors of each operation, in the order of the enumerations in fa2/c_call.h.
#pragma once

#include <fa2/append.h>
#include <fa2/args.h>
#include <fa2/backward.h>
#include <fa2/merge.h>
#include <fa2/problem.h>
#include <operation/operands/tensor_table.h>

namespace fa2 {

constexpr TensorTable attention_tensors() {
  TensorTable table = sizes_of<AttentionProblem>();
  table.sizes.add({.name = "max_pages"});
  add_tensors<AttentionProblem, AttentionArgs>(table);
  add_flags<AttentionProblem, AttentionArgs>(table);
  table.tensor("out").is_optional = true;  // it may be made once the sizes are known
  return table;
}

/// O and LSE, the forward's outputs, are inputs of the backward. It ignores the largest logits.
constexpr TensorTable backward_tensors() {
  TensorTable table = attention_tensors();
  for (const char* const output : {"out", "lse"})
    table.tensor(output).is_optional = table.tensor(output).is_written = false;
  table.tensor("max_logits").is_written = false;
  add_tensors<AttentionProblem, BackwardArgs>(table, true);
  return table;
}

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

inline constexpr TensorTable kAttentionTable = finished(attention_tensors());
inline constexpr TensorTable kBackwardTable = finished(backward_tensors());
inline constexpr TensorTable kDropoutMaskTable = finished(dropout_mask_tensors());
inline constexpr TensorTable kAppendTable = finished(append_tensors());
inline constexpr TensorTable kMergeTable = finished(merge_tensors());

}  // namespace fa2
