#include "described_call.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace fa2::test {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 4, kHeadsKv = 2, kDim = 16, kDimV = 8;
constexpr std::int64_t kRows = 5, kKeys = 7, kTotal = 9, kPages = 6, kPage = 3;

template <class Struct>
void append_bytes(std::string& bytes, const Struct& written) {
  bytes.append(reinterpret_cast<const char*>(&written), sizeof written);
}

DescribedCall call(const char* name, DescribedCall::Operation operation) {
  DescribedCall made;
  made.name = name;
  made.operation = operation;
  return made;
}

void give_packed_tensors(DescribedCall& call) {
  call.give(FA2_Q, FA2_F16, {kTotal, kHeads, kDim}).give(FA2_K, FA2_F16, {kTotal + 2, kHeadsKv, kDim});
  call.give(FA2_V, FA2_F16, {kTotal + 2, kHeadsKv, kDimV}).give(FA2_OUT, FA2_F16, {kTotal, kHeads, kDimV});
  call.give(FA2_LSE, FA2_FLOAT32, {kHeads, kTotal});
  call.give(FA2_CU_SEQLENS_Q, FA2_INT32, {kBatch + 1}).give(FA2_CU_SEQLENS_K, FA2_INT32, {kBatch + 1});
  call.give(FA2_SEQUSED_Q, FA2_INT32, {kBatch}).give(FA2_SEQUSED_K, FA2_INT32, {kBatch});
  call.give(FA2_ALIBI_SLOPES, FA2_FLOAT32, {kBatch, kHeads}).give(FA2_SINKS, FA2_FLOAT32, {kHeads});
  call.give(FA2_DROPOUT_STATE, FA2_INT64, {2});
  call.problem.seqlen_q = 6, call.problem.seqlen_k = 8;
}

void give_dense_tensors(DescribedCall& call) {
  call.give(FA2_Q, FA2_F16, {kBatch, kRows, kHeads, kDim});
  call.give(FA2_K, FA2_F16, {kBatch, kKeys, kHeadsKv, kDim});
  call.give(FA2_V, FA2_F16, {kBatch, kKeys, kHeadsKv, kDimV});
  call.give(FA2_OUT, FA2_F16, {kBatch, kRows, kHeads, kDimV});
  call.give(FA2_LSE, FA2_FLOAT32, {kBatch, kHeads, kRows});
  call.give(FA2_ALIBI_SLOPES, FA2_FLOAT32, {kHeads});
}

/// Gives the gradients, which have the shapes of their tensors.
void give_gradients(DescribedCall& call) {
  const std::array<int, 2> pairs[] = {{FA2_D_OUT, FA2_OUT}, {FA2_D_LSE, FA2_LSE},
                                      {FA2_GRAD_Q, FA2_Q},  {FA2_GRAD_K, FA2_K},
                                      {FA2_GRAD_V, FA2_V},  {FA2_GRAD_SINKS, FA2_SINKS}};
  for (const auto& [gradient, like] : pairs) {
    if (!call.has(like)) continue;
    const fa2_array& shaped = call[like];
    call.give(gradient, shaped.dtype, Extents(shaped.shape, shaped.shape + shaped.ndim));
  }
  call.outputs = {FA2_GRAD_Q, FA2_GRAD_K, FA2_GRAD_V, FA2_GRAD_SINKS};
}

}  // namespace

fa2_array described(std::int32_t dtype, const Extents& shape) {
  static std::uintptr_t next = std::uintptr_t{1} << 40;
  fa2_array array{};
  array.data = reinterpret_cast<void*>(next);
  next += 1 << 20;
  array.dtype = dtype;
  array.device = FA2_INTERPRETER_DEVICE;
  array.ndim = static_cast<std::int32_t>(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    array.shape[i] = shape[i];
    array.strides[i] = stride;
    stride *= shape[i];
  }
  return array;
}

DescribedCall& DescribedCall::give(int tensor, std::int32_t dtype, const Extents& shape) {
  tensors[static_cast<std::size_t>(tensor)] = described(dtype, shape);
  is_given[static_cast<std::size_t>(tensor)] = true;
  return *this;
}

DescribedCall& DescribedCall::leave_out(int tensor) {
  is_given[static_cast<std::size_t>(tensor)] = false;
  return *this;
}

int DescribedCall::count() const {
  constexpr int kCounts[] = {FA2_ATTENTION_TENSORS, FA2_BACKWARD_TENSORS, FA2_APPEND_TENSORS,
                             FA2_MERGE_TENSORS, FA2_DROPOUT_MASK_TENSORS};
  return kCounts[operation];
}

bool DescribedCall::writes(int tensor) const {
  return std::find(outputs.begin(), outputs.end(), tensor) != outputs.end();
}

bool DescribedCall::is_free(int tensor, int dimension) const {
  return std::find(free_extents.begin(), free_extents.end(), std::array{tensor, dimension}) !=
         free_extents.end();
}

fa2_status DescribedCall::bind() {
  const fa2_array* given[FA2_BACKWARD_TENSORS];
  for (std::size_t i = 0; i < tensors.size(); ++i) given[i] = is_given[i] ? &tensors[i] : nullptr;
  const auto n = static_cast<std::size_t>(count());
  switch (operation) {
    case attention:
      return fa2_bind_attention(given, n, &problem, &args, &place);
    case backward:
      return fa2_bind_backward(given, n, &problem, &args, &backward_args, &place);
    case append:
      return fa2_bind_append(given, n, &append_problem, &append_args, &place);
    case merge:
      return fa2_bind_merge(given, n, &merge_problem, &merge_args, &place);
    case dropout_mask:
      return fa2_bind_dropout_mask(given, n, &problem, &args, &place);
  }
  return FA2_INTERNAL;
}

std::string DescribedCall::written() const {
  std::string bytes;
  append_bytes(bytes, problem), append_bytes(bytes, args), append_bytes(bytes, backward_args);
  append_bytes(bytes, append_problem), append_bytes(bytes, append_args);
  append_bytes(bytes, merge_problem), append_bytes(bytes, merge_args), append_bytes(bytes, place);
  return bytes;
}

DescribedCall dense_attention() {
  DescribedCall made = call("dense attention", DescribedCall::attention);
  give_dense_tensors(made);
  made.outputs = {FA2_OUT, FA2_LSE};
  return made;
}

DescribedCall packed_attention() {
  DescribedCall made = call("packed attention", DescribedCall::attention);
  give_packed_tensors(made);
  made.outputs = {FA2_OUT, FA2_LSE};
  return made;
}

DescribedCall paged_attention() {
  DescribedCall made = dense_attention();
  made.name = "paged attention";
  made.give(FA2_K, FA2_F16, {kPages, kPage, kHeadsKv, kDim});
  made.give(FA2_V, FA2_F16, {kPages, kPage, kHeadsKv, kDimV});
  made.give(FA2_PAGE_TABLE, FA2_INT32, {kBatch, 4}).give(FA2_SEQUSED_K, FA2_INT32, {kBatch});
  made.free_extents = {{FA2_PAGE_TABLE, 1}};
  return made;
}

DescribedCall dense_backward() {
  DescribedCall made = call("dense backward", DescribedCall::backward);
  give_dense_tensors(made);
  give_gradients(made);
  return made;
}

DescribedCall packed_backward() {
  DescribedCall made = call("packed backward", DescribedCall::backward);
  give_packed_tensors(made);
  give_gradients(made);
  return made;
}

DescribedCall dense_append() {
  DescribedCall made = call("dense append", DescribedCall::append);
  made.give(FA2_APPEND_K, FA2_BF16, {kBatch, kRows, kHeadsKv, kDim});
  made.give(FA2_APPEND_V, FA2_BF16, {kBatch, kRows, kHeadsKv, kDimV});
  made.give(FA2_APPEND_K_CACHE, FA2_BF16, {kBatch + 1, kKeys, kHeadsKv, kDim});
  made.give(FA2_APPEND_V_CACHE, FA2_BF16, {kBatch + 1, kKeys, kHeadsKv, kDimV});
  made.give(FA2_APPEND_CACHE_SEQLENS, FA2_INT32, {kBatch})
      .give(FA2_APPEND_CACHE_BATCH_IDX, FA2_INT32, {kBatch});
  made.give(FA2_APPEND_ROTARY_COS, FA2_FLOAT32, {11, kDim / 2})
      .give(FA2_APPEND_ROTARY_SIN, FA2_FLOAT32, {11, kDim / 2});
  made.give(FA2_APPEND_ROTARY_SEQLENS, FA2_INT32, {kBatch});
  made.give(FA2_APPEND_Q, FA2_BF16, {kBatch, 3, kHeads, kDim});
  made.give(FA2_APPEND_Q_OUT, FA2_BF16, {kBatch, 3, kHeads, kDim});
  made.outputs = {FA2_APPEND_K_CACHE, FA2_APPEND_V_CACHE, FA2_APPEND_Q_OUT};
  return made;
}

DescribedCall packed_append() {
  DescribedCall made = dense_append();
  made.name = "packed append";
  made.leave_out(FA2_APPEND_CACHE_BATCH_IDX);
  made.give(FA2_APPEND_K, FA2_BF16, {kTotal, kHeadsKv, kDim});
  made.give(FA2_APPEND_V, FA2_BF16, {kTotal, kHeadsKv, kDimV});
  made.give(FA2_APPEND_K_CACHE, FA2_BF16, {kPages, kPage, kHeadsKv, kDim});
  made.give(FA2_APPEND_V_CACHE, FA2_BF16, {kPages, kPage, kHeadsKv, kDimV});
  made.give(FA2_APPEND_PAGE_TABLE, FA2_INT32, {kBatch, 4});
  made.give(FA2_APPEND_CU_SEQLENS_NEW, FA2_INT32, {kBatch + 1});
  made.give(FA2_APPEND_CU_SEQLENS_Q, FA2_INT32, {kBatch + 1});
  made.give(FA2_APPEND_Q, FA2_BF16, {kTotal, kHeads, kDim});
  made.give(FA2_APPEND_Q_OUT, FA2_BF16, {kTotal, kHeads, kDim});
  made.free_extents = {{FA2_APPEND_PAGE_TABLE, 1}};
  return made;
}

DescribedCall batched_merge() {
  DescribedCall made = call("batched merge", DescribedCall::merge);
  made.give(FA2_MERGE_OUT_PARTS, FA2_F16, {3, kBatch, kRows, kHeads, kDim});
  made.give(FA2_MERGE_LSE_PARTS, FA2_FLOAT32, {3, kBatch, kHeads, kRows});
  made.give(FA2_MERGE_OUT, FA2_F16, {kBatch, kRows, kHeads, kDim});
  made.give(FA2_MERGE_LSE, FA2_FLOAT32, {kBatch, kHeads, kRows});
  made.outputs = {FA2_MERGE_OUT, FA2_MERGE_LSE};
  return made;
}

DescribedCall packed_merge() {
  DescribedCall made = call("packed merge", DescribedCall::merge);
  made.give(FA2_MERGE_OUT_PARTS, FA2_F16, {3, kTotal, kHeads, kDim});
  made.give(FA2_MERGE_LSE_PARTS, FA2_FLOAT32, {3, kHeads, kTotal});
  made.give(FA2_MERGE_OUT, FA2_F16, {kTotal, kHeads, kDim});
  made.give(FA2_MERGE_LSE, FA2_FLOAT32, {kHeads, kTotal});
  made.outputs = {FA2_MERGE_OUT, FA2_MERGE_LSE};
  return made;
}

DescribedCall described_dropout_mask() {
  DescribedCall made = call("dropout mask", DescribedCall::dropout_mask);
  made.give(FA2_DROPOUT_MASK, FA2_UINT8, {kBatch, kHeads, kRows, kKeys});
  made.give(FA2_DROPOUT_MASK_DROPOUT_STATE, FA2_INT64, {2});
  made.outputs = {FA2_DROPOUT_MASK};
  for (int i = 0; i < 4; ++i) made.free_extents.push_back({FA2_DROPOUT_MASK, i});
  return made;
}

std::vector<DescribedCall> described_calls() {
  return {dense_attention(), packed_attention(),      paged_attention(), dense_backward(),
          packed_backward(), dense_append(),          packed_append(),   batched_merge(),
          packed_merge(),    described_dropout_mask()};
}

std::string complaint(DescribedCall call, const std::function<void(DescribedCall&)>& change) {
  change(call);
  CHECK(call.bind() == FA2_INVALID_REQUEST);
  return fa2_last_error();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace fa2::test
