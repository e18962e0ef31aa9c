// fa2/c_tensors.h: every wrong tensor of every operation is rejected, and then nothing is written.
#include <doctest/doctest.h>
#include <fa2/c_tensors.h>
#include <fmt/format.h>
#include <tests/support/allocations.h>
#include <tests/support/c_context.h>
#include <tests/support/described_call.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

using namespace fa2;
using namespace fa2::test;

namespace {

/// Calls change(call, number, tensor) for every tensor of every call, on a copy. If change() returns true, it
/// has spoilt the copy; then binding must reject the call and write nothing.
void refuse_all(const std::function<bool(DescribedCall&, int, fa2_array&)>& change) {
  int spoilt = 0;
  for (const DescribedCall& valid : described_calls()) {
    for (int i = 0; i < valid.count(); ++i) {
      if (!valid.has(i)) continue;
      DescribedCall call = valid;
      if (!change(call, i, call[i])) continue;
      ++spoilt;
      const std::string before = call.written();
      CAPTURE(call.name);
      CAPTURE(i);
      CHECK(call.bind() == FA2_INVALID_REQUEST);
      CHECK(call.written() == before);
    }
  }
  CHECK(spoilt > 10);
}

}  // namespace

TEST_CASE("c tensors: valid calls") {
  for (DescribedCall call : described_calls()) {
    CAPTURE(call.name);
    CHECK(call.bind() == FA2_OK);
    CHECK(call.place.device == FA2_INTERPRETER_DEVICE);
  }
}

TEST_CASE("c tensors: a wrong dtype") {
  for (std::int32_t dtype = FA2_OTHER_DTYPE; dtype <= FA2_UINT8; ++dtype) {
    refuse_all([&](DescribedCall& call, int i, fa2_array& tensor) {
      const bool is_part =
          call.operation == DescribedCall::merge && i != FA2_MERGE_LSE_PARTS && i != FA2_MERGE_LSE;
      const bool is_output =
          (call.operation == DescribedCall::attention || call.operation == DescribedCall::backward) &&
          i == FA2_OUT;
      const bool is_dq = call.operation == DescribedCall::backward && i == FA2_GRAD_Q;
      const bool may_be_float32 = (is_part || is_output || is_dq) && dtype == FA2_FLOAT32;
      const bool is_same = tensor.dtype == dtype;
      tensor.dtype = dtype;
      return !is_same && !may_be_float32;
    });
  }
}

TEST_CASE("c tensors: a wrong device, flags or pointer") {
  for (const std::int32_t device : {0, 1, -1, -3, -4}) {
    refuse_all([&](DescribedCall&, int, fa2_array& tensor) {
      tensor.device = device;
      return true;
    });
  }
  refuse_all([](DescribedCall&, int, fa2_array& tensor) {
    tensor.flags = 2;
    return true;
  });
  refuse_all([](DescribedCall&, int, fa2_array& tensor) {
    tensor.data = nullptr;
    return true;
  });
  refuse_all([](DescribedCall& call, int i, fa2_array& tensor) {
    tensor.flags = FA2_READ_ONLY;
    return call.writes(i);
  });
}

TEST_CASE("c tensors: all tensors wrong in the same way") {
  for (const DescribedCall& valid : described_calls()) {
    CAPTURE(valid.name);
    for (const std::int32_t wrong : {-3, -1, 99}) {
      CHECK(has(complaint(valid,
                          [&](DescribedCall& call) {
                            for (fa2_array& tensor : call.tensors) tensor.device = tensor.dtype = wrong;
                          }),
                ".dtype = another one"));
    }
    CHECK(has(complaint(valid,
                        [](DescribedCall& call) {
                          for (fa2_array& tensor : call.tensors) tensor.device = FA2_OTHER_DEVICE;
                        }),
              ".device = neither CUDA nor the CPU, must be"));
  }
}

TEST_CASE("c tensors: extents whose product overflows") {
  DescribedCall call = described_dropout_mask();
  fa2_array& mask = call[FA2_DROPOUT_MASK];
  for (int i = 0; i < 4; ++i) mask.shape[i] = std::int64_t{1} << 48;
  mask.strides[2] = std::int64_t{1} << 48;
  CHECK(call.bind() == FA2_INVALID_REQUEST);
}

TEST_CASE("c tensors: inputs may be read-only") {
  for (DescribedCall call : described_calls()) {
    for (int i = 0; i < call.count(); ++i)
      if (call.has(i) && !call.writes(i)) call[i].flags = FA2_READ_ONLY;
    CHECK(call.bind() == FA2_OK);
  }
}

TEST_CASE("c tensors: a wrong rank") {
  for (const std::int32_t rank : {-1, 0, 6, 1 << 30}) {
    refuse_all([&](DescribedCall&, int, fa2_array& tensor) {
      tensor.ndim = rank;
      return true;
    });
  }
  refuse_all([](DescribedCall&, int, fa2_array& tensor) { return --tensor.ndim > 0; });
  refuse_all([](DescribedCall&, int, fa2_array& tensor) {
    if (tensor.ndim == FA2_MOST_DIMENSIONS) return false;
    tensor.shape[tensor.ndim] = tensor.strides[tensor.ndim] = 1;
    ++tensor.ndim;
    return true;
  });
  refuse_all([](DescribedCall&, int, fa2_array& tensor) {  // (n, 0) for (n)
    if (tensor.ndim != 1) return false;
    tensor.shape[tensor.ndim++] = 0;
    return true;
  });
}

TEST_CASE("c tensors: a wrong extent") {
  for (int dimension = 0; dimension < FA2_MOST_DIMENSIONS; ++dimension) {
    for (const std::int64_t change : {-1, 1, 8}) {
      int spoilt = 0;
      for (const DescribedCall& valid : described_calls()) {
        for (int i = 0; i < valid.count(); ++i) {
          DescribedCall call = valid;
          if (!call.has(i) || dimension >= call[i].ndim || call.is_free(i, dimension)) continue;
          call[i].shape[dimension] += change;
          const std::string before = call.written();
          CAPTURE(call.name);
          CAPTURE(i);
          CAPTURE(dimension);
          CHECK(call.bind() == FA2_INVALID_REQUEST);
          CHECK(has(fa2_last_error(), ".shape = "));
          CHECK(call.written() == before);
          ++spoilt;
        }
      }
      CHECK(spoilt > 0);
    }
    for (const std::int64_t extent : {std::int64_t{-1}, std::int64_t{1} << 49, INT64_MIN, INT64_MAX}) {
      refuse_all([&](DescribedCall&, int, fa2_array& tensor) {
        const int i = std::min(dimension, tensor.ndim - 1);
        tensor.shape[i] = extent;
        return true;
      });
    }
  }
}

TEST_CASE("c tensors: strides that kernels do not support") {
  refuse_all([](DescribedCall& call, int i, fa2_array& tensor) {
    const bool has_no_columns = call.operation == DescribedCall::merge && i == FA2_MERGE_LSE_PARTS;
    tensor.strides[tensor.ndim - 1] = 2;
    return !has_no_columns;
  });
  DescribedCall packed = packed_attention();
  for (const int table : {FA2_LSE, FA2_ALIBI_SLOPES})
    CHECK(has(complaint(packed, [&](DescribedCall& call) { call[table].strides[0] += 1; }), "contiguous"));
  DescribedCall paged = paged_attention();
  paged[FA2_PAGE_TABLE].strides[0] = 9;
  CHECK(paged.bind() == FA2_OK);
  CHECK(paged.args.page_table_stride == 9);
  packed[FA2_CU_SEQLENS_Q].strides[0] = 0;
  CHECK(packed.bind() == FA2_INVALID_REQUEST);
}

TEST_CASE("c tensors: tensors that are required, alone or together") {
  const auto without = [](DescribedCall call, int tensor) {
    return complaint(std::move(call), [&](DescribedCall& spoilt) { spoilt.leave_out(tensor); });
  };
  for (const int tensor : {FA2_Q, FA2_K, FA2_V})
    CHECK(has(without(dense_attention(), tensor), "must be given"));
  for (const int tensor : {FA2_OUT, FA2_LSE, FA2_D_OUT})
    CHECK(has(without(dense_backward(), tensor), "must be given"));
  for (const int tensor :
       {FA2_APPEND_K, FA2_APPEND_V, FA2_APPEND_K_CACHE, FA2_APPEND_V_CACHE, FA2_APPEND_CACHE_SEQLENS})
    CHECK(has(without(dense_append(), tensor), "must be given"));
  CHECK(has(without(dense_append(), FA2_APPEND_ROTARY_SIN),
            "rotary_sin = none, must be given with rotary_cos"));
  CHECK(has(without(dense_append(), FA2_APPEND_ROTARY_COS),
            "rotary_sin = given, must be none without rotary_cos"));
  CHECK(has(without(dense_append(), FA2_APPEND_Q_OUT), "q_out = none, must be given with q"));
  CHECK(has(without(dense_append(), FA2_APPEND_Q), "q_out = given, must be none without q"));
  CHECK(has(without(packed_append(), FA2_APPEND_Q), "cu_seqlens_q = given, must be none without q"));
  CHECK(has(without(packed_append(), FA2_APPEND_CU_SEQLENS_NEW), "k.shape = (9, 2, 16), must be"));
  CHECK(has(without(packed_backward(), FA2_SINKS), "d_sinks = given, must be none without sinks"));
  CHECK(has(without(packed_attention(), FA2_CU_SEQLENS_Q), "q.shape = (9, 4, 16), must be"));
  for (int i = 0; i < FA2_MERGE_TENSORS - 1; ++i) CHECK(has(without(batched_merge(), i), "must be given"));
  CHECK(has(complaint(packed_append(),
                      [](DescribedCall& call) { call.give(FA2_APPEND_CACHE_BATCH_IDX, FA2_INT32, {2}); }),
            "cache_batch_idx = given, must be none with page_table"));
  CHECK(has(complaint(packed_attention(),
                      [](DescribedCall& call) {
                        call.give(FA2_PAGE_TABLE, FA2_INT32, {2, 4});
                      }),
            "cu_seqlens_k = given, must be none with page_table"));
  CHECK(fa2_bind_append(nullptr, 0, nullptr, nullptr, nullptr) == FA2_INVALID_REQUEST);
  for (const char* part : {"k = none", "cache_seqlens = none", "problem = NULL", "args = NULL"})
    CHECK(says(part));
}

TEST_CASE("c tensors: a message lists all that is wrong, with both shapes and their symbolic form") {
  const std::string text = complaint(dense_append(), [](DescribedCall& call) {
    call.give(FA2_APPEND_V_CACHE, FA2_F16, {1, 2, 2, 8});
    call[FA2_APPEND_CACHE_SEQLENS].device = 1;
  });
  for (const char* part : {"v_cache.shape = (1, 2, 2, 8), must be (3, 7, 2, 8) = (cache_entries, cache_rows, "
                           "heads_kv, head_dim_v)",
                           "v_cache.dtype = float16, must be bfloat16, as k",
                           "cache_seqlens.device = cuda:1, must be cpu, as k", "3 rules broken"}) {
    CAPTURE(part);
    CHECK(has(text, part));
  }
  CHECK(has(complaint(dense_attention(),
                      [](DescribedCall& call) {
                        call.give(FA2_K, FA2_F16, {7, 16});
                      }),
            "k.shape = (7, 16), must be (total_k, heads_kv, head_dim) if cu_seqlens_k, else (page_count, "
            "page_size, heads_kv, head_dim) if page_table, else (batch, seqlen_k, heads_kv, head_dim)"));
  const std::string wrong_keys =
      complaint(dense_attention(), [](DescribedCall& call) { call[FA2_K].dtype = FA2_UINT8; });
  CHECK(has(wrong_keys, "k.dtype = uint8, must be float16, bfloat16 or float8_e4m3fn"));
  CHECK(has(wrong_keys, "1 rule broken"));  // values need not be like keys of a type that is refused
  CHECK(has(complaint(dense_attention(), [](DescribedCall& call) { call[FA2_K].dtype = FA2_FLOAT8_E4M3FN; }),
            "must be float8_e4m3fn, as k"));
  CHECK(has(complaint(dense_attention(), [](DescribedCall& call) { call[FA2_K].ndim = 6; }),
            "k.shape = 6 dimensions, must be"));
}

TEST_CASE("c tensors: sizes whose 0 would select a default") {
  const auto spoil = [](std::initializer_list<int> tensors, int dimension) {
    return complaint(dense_attention(), [&](DescribedCall& call) {
      for (const int i : tensors) call[i].shape[dimension] = 0;
    });
  };
  CHECK(has(spoil({FA2_K, FA2_V}, 2), "heads_kv = 0, must be at least 1"));
  CHECK(has(spoil({FA2_V, FA2_OUT}, 3), "head_dim_v = 0, must be at least 1"));
  CHECK(has(spoil({FA2_Q, FA2_K}, 3), "head_dim = 0, must be at least 1"));
  const auto no_rows = [](DescribedCall& call) { call[FA2_K].shape[1] = call[FA2_V].shape[1] = 0; };
  CHECK(has(complaint(paged_attention(), no_rows), "page_size = 0, must be at least 1"));
  CHECK(has(complaint(packed_attention(),
                      [](DescribedCall& call) {
                        call[FA2_CU_SEQLENS_Q].shape[0] = call[FA2_CU_SEQLENS_K].shape[0] = 0;
                        for (const int i : {FA2_SEQUSED_Q, FA2_SEQUSED_K, FA2_ALIBI_SLOPES})
                          call.leave_out(i);
                      }),
            "batch = -1, must be at least 0"));
  const auto wide = [](DescribedCall& call) {
    for (const int i : {FA2_Q, FA2_K}) call[i].shape[3] = std::int64_t{1} << 32;
  };
  CHECK(has(complaint(dense_attention(), wide), "head_dim = 4294967296, must be at most 2147483647"));
}

TEST_CASE("c tensors: structs too small for what is filled in") {
  CHECK(has(complaint(dense_attention(), [](DescribedCall& call) { call.args.struct_size -= 16; }),
            fmt::format("args = a struct with struct_size {}, must have {}, ", sizeof(fa2_args) - 16,
                        sizeof(fa2_args))));
  CHECK(has(complaint(dense_backward(), [](DescribedCall& call) { call.problem.struct_size = 120; }),
            "problem = a struct with struct_size 120"));
}

TEST_CASE("c tensors: tensors beyond those of the operation") {
  const fa2_array q = described(FA2_F16, {2, 5, 4, 16});
  const fa2_array* tensors[FA2_BACKWARD_TENSORS] = {};
  tensors[FA2_Q] = tensors[FA2_K] = tensors[FA2_V] = tensors[FA2_D_OUT] = &q;
  fa2_problem problem = FA2_PROBLEM_INIT;
  fa2_args args = FA2_ARGS_INIT;
  CHECK(fa2_bind_attention(tensors, FA2_ATTENTION_TENSORS, &problem, &args, nullptr) == FA2_OK);
  CHECK(fa2_bind_attention(tensors, 3, &problem, &args, nullptr) == FA2_OK);
  CHECK(fa2_bind_attention(tensors, FA2_BACKWARD_TENSORS, &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says(fmt::format("must be NULL: there are {} tensors", int{FA2_ATTENTION_TENSORS})));
  CHECK(says(fmt::format("tensors[{}] = given", int{FA2_D_OUT})));
}

TEST_CASE("c tensors: binding a valid call allocates nothing") {
  if (cannot_count_allocations()) return;
  for (DescribedCall call : described_calls()) CHECK(allocations_of([&] { call.bind(); }) == 0);
}
