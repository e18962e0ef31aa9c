// Calls of the C interface with the tensors of C++ ones.
#pragma once

#include <doctest/doctest.h>
#include <fa2/c_backward.h>

#include <memory>

#include "gpu_backward.h"

namespace fa2::test {

inline fa2_tensor tensor(const void* data, const TensorStrides& strides) {
  return {const_cast<void*>(data), {strides.batch, strides.head, strides.row}};
}

/// The C arguments of a problem without variants.
struct CCall {
  explicit CCall(const BackwardArgs& from) {
    forward.q = tensor(from.forward.q, from.forward.q_strides);
    forward.k = tensor(from.forward.k, from.forward.k_strides);
    forward.v = tensor(from.forward.v, from.forward.v_strides);
    forward.out = tensor(from.forward.out, from.forward.out_strides);
    forward.lse = from.forward.lse;
    args.forward = &forward;
    args.d_out = tensor(from.d_out, from.d_out_strides);
    args.dq = tensor(from.dq, from.dq_strides);
    args.dk = tensor(from.dk, from.dk_strides);
    args.dv = tensor(from.dv, from.dv_strides);
    args.d_lse = from.d_lse;
    args.determinism = from.determinism == Determinism::bitwise ? FA2_BITWISE : FA2_FASTEST;
  }
  CCall(const CCall&) = delete;
  CCall& operator=(const CCall&) = delete;

  fa2_args forward = FA2_ARGS_INIT;
  fa2_backward_args args = FA2_BACKWARD_ARGS_INIT;
};

using CContext = std::unique_ptr<fa2_context, decltype(&fa2_context_destroy)>;

inline CContext c_context() {
  const ContextOptions like = untuned();
  fa2_context_options options = FA2_CONTEXT_OPTIONS_INIT;
  options.cache_dir = like.cache_dir->c_str();
  options.read_only_caches = "";
  options.tune = FA2_TUNE_OFF;
  fa2_context* context = nullptr;
  REQUIRE_MESSAGE(fa2_context_create(&options, &context) == FA2_OK, fa2_last_error());
  return {context, fa2_context_destroy};
}

}  // namespace fa2::test
