// Backward requests with pointers that are never dereferenced.
#pragma once

#include <fa2/backward.h>
#include <operation/operands/operands.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace fa2::test {

inline AttentionProblem causal_gqa(std::int64_t seqlen_k = 4000) {
  AttentionProblem p;
  p.mask = MaskKind::causal_bottom_right;
  p.head_dim = 128;
  p.batch = 2;
  p.heads_q = 32;
  p.heads_kv = 8;
  p.seqlen_q = 1000;
  p.seqlen_k = seqlen_k;
  return p.normalized();
}

/// Returns contiguous (batch, seqlen, heads, dim) tensors, each in its own 16 GB; with all gradients, and
/// that of LSE.
inline BackwardArgs backward_arguments(const AttentionProblem& problem) {
  const auto at = [](std::uintptr_t place) { return reinterpret_cast<void*>(place << 34); };
  const auto floats = [&](std::uintptr_t place) { return static_cast<float*>(at(place)); };
  BackwardArgs args = backward_args(bshd_args(problem, at(1), at(2), at(3), at(4), floats(5)));
  args.d_out = at(6), args.d_out_strides = args.forward.out_strides;
  args.d_lse = floats(7);
  args.dq = at(8), args.dq_strides = args.forward.q_strides;
  args.dk = at(9), args.dk_strides = args.forward.k_strides;
  args.dv = at(10), args.dv_strides = args.forward.v_strides;
  if (problem.alibi) args.forward.alibi_slopes = floats(11);
  if (problem.sinks) args.forward.sinks = floats(12);
  if (problem.softcap) args.forward.softcap = 30;
  return args;
}

/// Returns the uses of the numbers per head of every variant: "alibi_slopes:read sinks:read ".
inline std::string reads_of_numbers() {
  std::string text;
  for (std::size_t i = 0; i < kForwardTensors; ++i)
    if (has_numbers(static_cast<Role>(i)))
      text += std::string(kAttentionTable.tensors[i].text.name) + ":read ";
  return text;
}

}  // namespace fa2::test
