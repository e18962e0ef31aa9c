// fa2/c_tensors.h: the values that a binding reads from shapes and writes to problems and arguments.
#include <api/c_structs.h>
#include <doctest/doctest.h>
#include <fa2/c_tensors.h>
#include <fa2/score_text.h>
#include <operation/rules/validate.h>
#include <tests/support/c_context.h>
#include <tests/support/described_call.h>

#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <utility>

using namespace fa2;
using namespace fa2::test;

TEST_CASE("c tensors: packed sequences without a row") {
  DescribedCall call = packed_attention();
  for (const int i : {FA2_Q, FA2_OUT}) call[i].shape[0] = 0, call[i].data = nullptr;
  call[FA2_LSE].shape[1] = 0, call[FA2_LSE].strides[0] = 1;
  REQUIRE(call.bind() == FA2_OK);
  CHECK(call.problem.seqlen_q == 0);
  CHECK(call.args.cu_seqlens_q == nullptr);
  CHECK(call.problem.batch == 2);
  const CContext context;
  call.leave_out(FA2_DROPOUT_STATE);  // the problem has no dropout
  REQUIRE(call.bind() == FA2_OK);
  CHECK(fa2_attention(context.get(), &call.problem, &call.args, nullptr) == FA2_OK);

  call = packed_attention();
  for (const int i : {FA2_K, FA2_V}) call[i].shape[0] = 0;
  REQUIRE(call.bind() == FA2_OK);
  CHECK(call.problem.seqlen_k == 0);
  CHECK(call.args.cu_seqlens_k == nullptr);
  CHECK(call.problem.seqlen_q == 6);
}

TEST_CASE("c tensors: the longest sequence") {
  DescribedCall packed = packed_attention();
  REQUIRE(packed.bind() == FA2_OK);
  CHECK(packed.problem.seqlen_q == 6);
  CHECK(packed.problem.seqlen_k == 8);
  CHECK(has(complaint(packed, [](DescribedCall& call) { call.problem.seqlen_q = -1; }),
            "max_seqlen_q = none, must be given with cu_seqlens_q"));
  DescribedCall dense = dense_attention();
  dense.give(FA2_SEQUSED_K, FA2_INT32, {2});
  dense.problem.seqlen_q = dense.problem.seqlen_k = 1000;  // more than the tensors have
  REQUIRE(dense.bind() == FA2_OK);
  CHECK(dense.problem.seqlen_q == 5);
  CHECK(dense.problem.seqlen_k == 7);
  for (const auto& [given, expected] : {std::pair{-1, 12}, {0, 12}, {1000, 12}, {10, 10}}) {
    DescribedCall paged = paged_attention();
    paged.problem.seqlen_k = given;
    REQUIRE(paged.bind() == FA2_OK);
    CHECK(paged.problem.seqlen_k == expected);
  }
}

TEST_CASE("c tensors: windows that hide nothing are removed, others are kept") {
  for (const auto& [width, is_kept] : {std::pair{6, true}, {7, false}, {1000, false}, {-2, true}}) {
    DescribedCall dense = dense_attention();  // 5 queries and 7 keys
    dense.problem.has_window_left = dense.problem.has_window_right = 1;
    dense.problem.window_left = dense.problem.window_right = width;
    REQUIRE(dense.bind() == FA2_OK);
    CHECK((dense.problem.has_window_left != 0) == is_kept);
    CHECK((dense.problem.has_window_right != 0) == is_kept);
    CHECK(dense.problem.window_left == (is_kept ? width : 0));
  }
}

TEST_CASE("c tensors: chunks that hide nothing are removed, others are kept") {
  // Without a mask, query 0 may lie before key 0 and so see no chunk.
  for (const auto& [length, mask, is_kept] : {std::tuple{6, FA2_CAUSAL_BOTTOM_RIGHT, true},
                                              {7, FA2_CAUSAL_BOTTOM_RIGHT, false},
                                              {1000, FA2_CAUSAL_TOP_LEFT, false},
                                              {1000, FA2_MASK_NONE, true},
                                              {0, FA2_CAUSAL_BOTTOM_RIGHT, true}}) {
    DescribedCall dense = dense_attention();  // 5 queries and 7 keys
    dense.problem.mask = mask;
    dense.problem.has_attention_chunk = 1, dense.problem.attention_chunk = length;
    REQUIRE(dense.bind() == FA2_OK);
    CHECK((dense.problem.has_attention_chunk != 0) == is_kept);
    CHECK(dense.problem.attention_chunk == (is_kept ? length : 0));
  }
}

TEST_CASE("c tensors: the values read from attention's tensors") {
  DescribedCall dense = dense_attention();
  dense.args.page_table = &dense.place.device;  // left over from another call
  dense.args.page_table_stride = 3;
  REQUIRE(dense.bind() == FA2_OK);
  const fa2_problem& p = dense.problem;
  CHECK(p.batch == 2);
  CHECK(p.heads_q == 4);
  CHECK(p.heads_kv == 2);
  CHECK(p.head_dim == 16);
  CHECK(p.head_dim_v == 8);
  CHECK(p.dtype == FA2_F16);
  CHECK(p.alibi == 1);
  CHECK(p.sinks == 0);
  CHECK(p.varlen + p.total_q + p.total_k + p.page_size + p.page_count == 0);
  CHECK(dense.args.q.data == dense[FA2_Q].data);
  CHECK(dense.args.out.strides[0] == 5 * 4 * 8);
  CHECK(dense.args.out.strides[1] == 8);
  CHECK(dense.args.out.strides[2] == 4 * 8);
  CHECK(dense.args.alibi_slopes == dense[FA2_ALIBI_SLOPES].data);
  CHECK(dense.args.alibi_slopes_per_batch == 0);
  CHECK(dense.args.page_table == nullptr);
  CHECK(dense.args.page_table_stride == 0);

  DescribedCall packed = packed_backward();
  REQUIRE(packed.bind() == FA2_OK);
  CHECK(packed.problem.total_q == 9);
  CHECK(packed.problem.total_k == 11);
  CHECK(packed.problem.varlen == 1);
  CHECK(packed.args.alibi_slopes_per_batch == 1);
  CHECK(packed.args.k.strides[0] == 0);
  CHECK(packed.args.k.strides[2] == 2 * 16);
  CHECK(packed.backward_args.forward == &packed.args);
  CHECK(packed.backward_args.dv.data == packed[FA2_GRAD_V].data);
  CHECK(packed.backward_args.d_sinks == packed[FA2_GRAD_SINKS].data);
  DescribedCall paged = paged_attention();
  REQUIRE(paged.bind() == FA2_OK);
  CHECK(paged.problem.page_size == 3);
  CHECK(paged.problem.page_count == 6);
  CHECK(paged.args.page_table_stride == 4);
}

TEST_CASE("c tensors: what no tensor tells stays, and max_logits is told by its tensor") {
  DescribedCall call = dense_attention();
  call.leave_out(FA2_DROPOUT_STATE);
  call.problem.sm_margin = 8;
  call.problem.score_text = fa2::make_score_text({.bias = "return 0.0f;"});
  call.problem.lse_base = FA2_LSE_BASE_TWO;
  call.problem.batch_invariant = 1;
  REQUIRE(call.bind() == FA2_OK);
  CHECK(call.problem.sm_margin == 8);
  CHECK(call.problem.score_text != 0);
  CHECK(call.problem.lse_base == FA2_LSE_BASE_TWO);
  CHECK(call.problem.batch_invariant == 1);
  const fa2_problem& p = call.problem;
  call.leave_out(FA2_MAX_LOGITS);
  REQUIRE(call.bind() == FA2_OK);
  CHECK(p.max_logits == 0);
  call.give(FA2_MAX_LOGITS, FA2_FLOAT32, {p.batch, p.heads_q});
  REQUIRE(call.bind() == FA2_OK);
  CHECK(p.max_logits == 1);
  CHECK(call.args.max_logits == call[FA2_MAX_LOGITS].data);
  call.give(FA2_MAX_LOGITS, FA2_FLOAT32, {p.heads_q, p.batch + 1});
  CHECK(call.bind() == FA2_INVALID_REQUEST);
  DescribedCall merge = batched_merge();
  merge.merge_problem.lse_base = FA2_LSE_BASE_TWO;
  REQUIRE(merge.bind() == FA2_OK);
  CHECK(merge.merge_problem.lse_base == FA2_LSE_BASE_TWO);
}

TEST_CASE("c tensors: dK and dV tell whether they are float32, each alone and both alike") {
  DescribedCall call = packed_backward();
  const auto bound = [&](std::int32_t dk, std::int32_t dv) {
    call[FA2_GRAD_K].dtype = dk, call[FA2_GRAD_V].dtype = dv;
    return call.bind();
  };
  REQUIRE(call.bind() == FA2_OK);
  CHECK(call.problem.float32_dk_dv == 0);
  REQUIRE(bound(FA2_FLOAT32, FA2_FLOAT32) == FA2_OK);
  CHECK(call.problem.float32_dk_dv == 1);
  CHECK(bound(FA2_FLOAT32, call[FA2_Q].dtype) == FA2_INVALID_REQUEST);
  CHECK(bound(call[FA2_Q].dtype, FA2_FLOAT32) == FA2_INVALID_REQUEST);
  call.leave_out(FA2_GRAD_K);
  REQUIRE(call.bind() == FA2_OK);
  CHECK(call.problem.float32_dk_dv == 1);
}

TEST_CASE("c tensors: dQ tells whether it is float32, whatever dK and dV are") {
  DescribedCall call = packed_backward();
  call[FA2_GRAD_Q].dtype = FA2_FLOAT32;
  REQUIRE(call.bind() == FA2_OK);
  CHECK(call.problem.float32_dq == 1);
  CHECK(call.problem.float32_dk_dv == 0);
}

TEST_CASE("c tensors: O tells whether it is float32") {
  DescribedCall call = packed_attention();
  REQUIRE(call.bind() == FA2_OK);
  CHECK(call.problem.float32_out == 0);
  call[FA2_OUT].dtype = FA2_FLOAT32;
  REQUIRE(call.bind() == FA2_OK);
  CHECK(call.problem.float32_out == 1);
  call[FA2_OUT].dtype = FA2_FLOAT8_E4M3FN;
  CHECK(call.bind() == FA2_INVALID_REQUEST);
}

TEST_CASE("c tensors: the values read from the tensors of append and merge") {
  DescribedCall dense = dense_append();
  REQUIRE(dense.bind() == FA2_OK);
  const fa2_append_problem& p = dense.append_problem;
  CHECK(p.rotary_dim == 16);
  CHECK(p.table_rows == 11);
  CHECK(p.float32_tables == 1);
  CHECK(p.dtype == FA2_BF16);
  CHECK(p.cache_entries == 3);
  CHECK(p.cache_rows == 7);
  CHECK(p.page_size == 0);
  CHECK(p.seqlen_new == 5);
  CHECK(p.heads_q == 4);
  CHECK(p.seqlen_q == 3);
  CHECK(dense.append_args.table_stride == 8);
  CHECK(p.kv_type == FA2_KV_SAME);
  for (const int cache : {FA2_APPEND_K_CACHE, FA2_APPEND_V_CACHE}) dense[cache].dtype = FA2_FLOAT8_E4M3FN;
  dense.give(FA2_APPEND_K_DESCALE, FA2_FLOAT32, {2, 2});
  REQUIRE(dense.bind() == FA2_OK);
  CHECK(p.kv_type == FA2_KV_E4M3);
  CHECK(dense.append_args.k_descale.data == dense[FA2_APPEND_K_DESCALE].data);
  CHECK(dense.append_args.v_descale.data == nullptr);
  DescribedCall packed = packed_append();
  REQUIRE(packed.bind() == FA2_OK);
  CHECK(packed.append_problem.page_size == 3);
  CHECK(packed.append_problem.max_pages == 4);
  CHECK(packed.append_problem.total_q == 9);
  CHECK(packed.append_problem.total_new == 9);
  for (const int i : {FA2_APPEND_ROTARY_COS, FA2_APPEND_ROTARY_SIN, FA2_APPEND_ROTARY_SEQLENS, FA2_APPEND_Q,
                      FA2_APPEND_Q_OUT, FA2_APPEND_CU_SEQLENS_Q})
    packed.leave_out(i);
  REQUIRE(packed.bind() == FA2_OK);
  CHECK(packed.append_problem.heads_q + packed.append_problem.rotary_dim + packed.append_problem.total_q ==
        0);

  DescribedCall merge = batched_merge();
  REQUIRE(merge.bind() == FA2_OK);
  CHECK(merge.merge_problem.parts == 3);
  CHECK(merge.merge_problem.batch == 2);
  CHECK(merge.merge_args.part_stride == 2 * 5 * 4 * 16);
  CHECK(merge.merge_args.lse_part_stride == 2 * 4 * 5);
  CHECK(merge.merge_args.lse_parts.strides[1] == 5);
  merge[FA2_MERGE_OUT_PARTS].dtype = FA2_FLOAT32;
  merge[FA2_MERGE_OUT].dtype = FA2_BF16;
  REQUIRE(merge.bind() == FA2_OK);
  CHECK(merge.merge_problem.float32_parts == 1);
  CHECK(merge.merge_problem.dtype == FA2_BF16);
  DescribedCall packed_parts = packed_merge();
  REQUIRE(packed_parts.bind() == FA2_OK);
  CHECK(packed_parts.merge_problem.batch == 1);
  CHECK(packed_parts.merge_problem.seqlen == 9);
}

TEST_CASE("c tensors: the alignment that a binding reports is the one that attention() finds") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    DescribedCall call = round % 2 == 0 ? dense_attention() : packed_attention();
    call.leave_out(FA2_DROPOUT_STATE);
    for (const int i : {FA2_Q, FA2_K, FA2_V, FA2_OUT}) {
      if (random() % 4 == 0) call[i].data = static_cast<char*>(call[i].data) + 2 * (random() % 16);
      if (random() % 8 == 0) call[i].shape[1] = call[i].strides[0] = 1;
      const auto dimension = random() % static_cast<unsigned>(call[i].ndim - 1);
      if (random() % 4 == 0) call[i].strides[dimension] = static_cast<std::int64_t>(random() % 64) - 32;
    }
    if (call.bind() != FA2_OK) continue;
    Found found;
    const auto problem = problem_of(&call.problem, found);
    const auto args = args_of(&call.args, found);
    const PlanOptions kept = options_kept_by(*problem, operands_of(*problem, *args));
    CHECK(call.place.row_alignment == static_cast<std::int32_t>(kept.row_alignment));
  }
}
