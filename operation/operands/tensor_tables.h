// The tensors of attention and of its backward, in the order of the enumerations in fa2/c_call.h.
#pragma once

#include <fa2/args.h>
#include <fa2/backward.h>
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

inline constexpr TensorTable kAttentionTable = finished(attention_tensors());
inline constexpr TensorTable kBackwardTable = finished(backward_tensors());

}  // namespace fa2
