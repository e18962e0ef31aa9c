// The C interface of the backward: layouts, codes and messages. Needs no GPU; tests/attention compares the
// bits.
#include <api/c_structs.h>
#include <doctest/doctest.h>
#include <fa2/backward.h>
#include <fa2/c_backward.h>
#include <fmt/format.h>
#include <tests/support/c_context.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

using fa2::test::CContext;
using fa2::test::says;
using fa2::test::small_problem;

namespace {

static_assert(std::is_standard_layout_v<fa2_backward_args>);
static_assert(FA2_ALL_GRADIENTS == (FA2_DQ | FA2_DK | FA2_DV) && (FA2_ALL_GRADIENTS & FA2_BITWISE) == 0);

/// A call whose pointers all differ and do nothing else.
struct Call {
  fa2_args forward = FA2_ARGS_INIT;
  fa2_backward_args args = FA2_BACKWARD_ARGS_INIT;

  Call() { args.forward = &forward; }
};

}  // namespace

TEST_CASE("c backward: the fields of the structs reach the C++ arguments") {
  Call call;
  float numbers[7] = {};
  call.forward.lse = &numbers[0];
  call.forward.softcap = 3;
  fa2_tensor* const tensors[] = {&call.args.d_out, &call.args.dq, &call.args.dk, &call.args.dv};
  for (int i = 0; i < 4; ++i) *tensors[i] = {&numbers[i + 1], {10 * i + 1, 10 * i + 2, 10 * i + 3}};
  call.args.d_lse = &numbers[5];
  call.args.d_sinks = &numbers[6];

  fa2::Found found;
  const fa2::BackwardArgs args = fa2::args_of(&call.args, found).value();
  CHECK(found.empty());
  CHECK(args.forward.lse == &numbers[0]);
  CHECK(args.forward.softcap == 3);
  CHECK(args.d_out == &numbers[1]);
  CHECK(args.dq == &numbers[2]);
  CHECK(args.dk == &numbers[3]);
  CHECK(args.dv == &numbers[4]);
  CHECK(args.d_lse == &numbers[5]);
  CHECK(args.d_sinks == &numbers[6]);
  const fa2::TensorStrides strides[] = {args.d_out_strides, args.dq_strides, args.dk_strides,
                                        args.dv_strides};
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(strides[i].batch == 10 * i + 1);
    CHECK(strides[i].head == 10 * i + 2);
    CHECK(strides[i].row == 10 * i + 3);
  }
}

TEST_CASE("c backward: determinism reaches the C++ options; the default is fastest") {
  Call call;
  fa2::Found found;
  CHECK(fa2::args_of(&call.args, found).value().determinism == fa2::Determinism::fastest);
  call.args.determinism = FA2_BITWISE;
  CHECK(fa2::args_of(&call.args, found).value().determinism == fa2::Determinism::bitwise);
  CHECK(found.empty());
}

TEST_CASE("c backward: flags select gradients, and bitwise determinism") {
  fa2::Found found;
  for (std::int32_t flags = 0; flags < 2 * FA2_D_CAPTURES; ++flags) {
    CAPTURE(flags);
    const fa2::Gradients expected = {.dq = flags % 2 == 1,
                                     .dk = flags / 2 % 2 == 1,
                                     .dv = flags / 4 % 2 == 1,
                                     .d_sinks = flags / 8 % 2 == 1,
                                     .d_captures = flags / 16 == 1};
    CHECK(fa2::gradients_of(flags, found) == expected);
    fa2::Gradients bitwise = expected;
    bitwise.determinism = fa2::Determinism::bitwise;
    CHECK(fa2::gradients_of(flags | FA2_BITWISE, found) == bitwise);
  }
  CHECK(found.empty());
}

TEST_CASE("c backward: NULL for a required argument is an error that names it") {
  const fa2_problem problem = small_problem();
  Call call;
  CHECK(fa2_attention_backward(nullptr, nullptr, &call.args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("problem = NULL"));
  CHECK(fa2_attention_backward(nullptr, &problem, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("args = NULL"));
  call.args.forward = nullptr;
  CHECK(fa2_attention_backward(nullptr, &problem, &call.args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("forward = NULL"));
  CHECK(fa2_backward_plan_run(nullptr, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("plan = NULL"));
  CHECK(says("args = NULL"));

  CHECK(fa2_backward_plan_create(nullptr, &problem, -2, FA2_ALL_GRADIENTS, nullptr, nullptr) ==
        FA2_INVALID_REQUEST);
  CHECK(says("plan = NULL"));
  std::size_t bytes = 1;
  CHECK(fa2_backward_plan_workspace_bytes(nullptr, &bytes) == FA2_INVALID_REQUEST);
  CHECK(says("plan = NULL"));
  CHECK(bytes == 0);
  char* json = const_cast<char*>("untouched");
  CHECK(fa2_backward_plan_explain(nullptr, &json) == FA2_INVALID_REQUEST);
  CHECK(says("plan = NULL"));
  CHECK(json == nullptr);
  CHECK(fa2_backward_plan_destroy(nullptr) == FA2_OK);
}

TEST_CASE("c backward: struct sizes") {
  const CContext context;
  fa2_problem problem = small_problem();
  problem.batch = 0;
  struct Newer {  // as a later header might declare it
    fa2_backward_args known;
    std::int64_t later;
  };
  Call call;
  Newer newer = {call.args, 0};
  newer.known.struct_size = sizeof(Newer);
  CHECK(fa2_attention_backward(context.get(), &problem, &newer.known, nullptr) == FA2_OK);
  newer.later = 1;
  CHECK(fa2_attention_backward(context.get(), &problem, &newer.known, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says(fmt::format("from byte {} on", sizeof(fa2_backward_args))));

  call.forward.struct_size = 8;
  CHECK(fa2_attention_backward(context.get(), &problem, &call.args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says(fmt::format("forward = a struct with struct_size 8, must have {}, ", sizeof(fa2_args))));
  call.args.struct_size = sizeof(fa2_backward_args) - 24;
  CHECK(fa2_attention_backward(context.get(), &problem, &call.args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says(fmt::format("args = a struct with struct_size {}, must have {}, ",
                         sizeof(fa2_backward_args) - 24, sizeof(fa2_backward_args))));
}

TEST_CASE("c backward: one message lists what is wrong with the problem, the arguments and their structs") {
  fa2_problem problem = small_problem();
  Call call;
  call.args.determinism = 1;
  call.args.dq.data = &call;
  call.forward.empty_row_lse = 2;
  call.forward.has_softmax_scale = 1;
  call.forward.softmax_scale = std::strtof("inf", nullptr);
  CHECK(fa2_attention_backward(nullptr, &problem, &call.args, nullptr) == FA2_INVALID_REQUEST);
  for (const char* part :
       {"determinism = 1, must be FA2_FASTEST (0) or FA2_BITWISE (256)", "empty_row_lse = 2",
        "softmax_scale = inf", "q = null", "lse = null", "d_out = null"}) {
    CAPTURE(part);
    CHECK(says(part));
  }
  problem.varlen = 1;
  problem.total_k = 16;
  CHECK(fa2_attention_backward(nullptr, &problem, &call.args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("determinism = 1"));
  CHECK(says("cu_seqlens_k = null"));
  problem.struct_size = 1;
  CHECK(fa2_attention_backward(nullptr, &problem, &call.args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("problem = a struct with struct_size 1"));
  CHECK(says("softmax_scale = inf"));
}

TEST_CASE("c backward: a call or a plan without a gradient is rejected") {
  const fa2_problem problem = small_problem();
  Call call;
  CHECK(fa2_attention_backward(nullptr, &problem, &call.args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("dq, dk, dv, d_sinks and d_captures = null, must not all be: none is asked for"));
  fa2_backward_plan* plan = nullptr;
  CHECK(fa2_backward_plan_create(nullptr, &problem, -1, 0, nullptr, &plan) == FA2_INVALID_REQUEST);
  CHECK(says("gradients = none, must be at least one of dq, dk, dv, d_sinks and d_captures"));
}

TEST_CASE("c backward: an impossible plan is rejected with all that is wrong") {
  fa2_problem problem = small_problem();
  problem.head_dim = 7;
  fa2_plan_options options = FA2_PLAN_OPTIONS_INIT;
  options.row_alignment = 3;
  fa2_backward_plan* plan = nullptr;
  CHECK(fa2_backward_plan_create(nullptr, &problem, -5, 32, &options, &plan) == FA2_INVALID_REQUEST);
  CHECK(plan == nullptr);
  for (const char* part : {"head_dim = 7", "device = -5", "row_alignment = 3",
                           "gradients = 32, must be a sum of dq (1), dk (2), dv (4), d_sinks (8), d_captures "
                           "(16), FA2_BITWISE (256)"}) {
    CAPTURE(part);
    CHECK(says(part));
  }
  CHECK(fa2_backward_plan_create(nullptr, &problem, -2, -1, nullptr, &plan) == FA2_INVALID_REQUEST);
  CHECK(says("gradients = -1"));
  problem.head_dim = 64;
  CHECK(fa2_backward_plan_create(nullptr, &problem, -2, FA2_D_SINKS, nullptr, &plan) == FA2_INVALID_REQUEST);
  CHECK(says("d_sinks = true, must be false, or the problem's sinks true"));
}
