// Paged KV in C has the same bits as in C++.
#include <doctest/doctest.h>
#include <fa2/c_api.h>
#include <runtime/device.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

const Lengths kLengths({1, 1, 1}, {37, 0, 16});

AttentionProblem problem() {
  AttentionProblem p =
      with_lengths({.head_dim = 64, .heads_q = 4, .heads_kv = 2}, kLengths, Packing::batched);
  p.page_size = 16;
  p.page_count = 6;
  return p;
}

fa2_problem c_problem() {
  const AttentionProblem p = problem();
  fa2_problem c = FA2_PROBLEM_INIT;
  c.head_dim = p.head_dim;
  c.batch = p.batch, c.heads_q = p.heads_q, c.heads_kv = p.heads_kv;
  c.seqlen_q = p.seqlen_q, c.seqlen_k = p.seqlen_k;
  c.varlen = 1;
  c.page_size = p.page_size;
  c.page_count = p.page_count;
  return c;
}

fa2_tensor c_tensor(const void* data, const TensorStrides& strides) {
  return {const_cast<void*>(data), {strides.batch, strides.head, strides.row}};
}

fa2_args c_args(const AttentionArgs& args) {
  fa2_args c = FA2_ARGS_INIT;
  c.q = c_tensor(args.q, args.q_strides);
  c.k = c_tensor(args.k, args.k_strides);
  c.v = c_tensor(args.v, args.v_strides);
  c.out = c_tensor(args.out, args.out_strides);
  c.lse = args.lse;
  c.seqused_q = args.seqused_q, c.seqused_k = args.seqused_k;
  c.page_table = args.page_table, c.page_table_stride = args.page_table_stride;
  return c;
}

template <class Handle>
using Owned = std::unique_ptr<Handle, fa2_status (*)(Handle*)>;

Owned<fa2_plan> c_plan(const fa2_problem& problem) {
  fa2_context_options options = FA2_CONTEXT_OPTIONS_INIT;
  options.tune = FA2_TUNE_OFF;
  fa2_context* context = nullptr;
  REQUIRE(fa2_context_create(&options, &context) == FA2_OK);
  const Owned<fa2_context> owned(context, fa2_context_destroy);
  fa2_plan* plan = nullptr;
  REQUIRE_MESSAGE(fa2_plan_create(context, &problem, device_under_test(), nullptr, &plan) == FA2_OK,
                  fa2_last_error());
  return {plan, fa2_plan_destroy};
}

}  // namespace

TEST_CASE("c pages: the bits of C++") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(problem());
  set_lengths(call, kLengths, Packing::batched);
  const auto stride = static_cast<std::size_t>(call.args.page_table_stride);
  call.tables.page_table.assign(3 * stride, 99);  // entries beyond a sequence name no page
  call.tables.page_table[0] = 3, call.tables.page_table[1] = 5, call.tables.page_table[2] = 0;
  call.tables.page_table[2 * stride] = 2;
  call.upload();
  Context context(untuned());
  run_and_expect_contract(context, call);
  const auto expected = bits_of(call.out(), call.problem.dtype);

  const Owned<fa2_plan> plan = c_plan(c_problem());
  const fa2_args args = c_args(call.args);
  call.upload();
  CHECK_MESSAGE(fa2_plan_run(plan.get(), &args, nullptr) == FA2_OK, fa2_last_error());
  CHECK(bits_of(call.out(), call.problem.dtype) == expected);
}

TEST_CASE("c pages: one message lists all mistakes of a problem") {
  fa2_problem wrong = c_problem();
  wrong.page_count = 0;
  wrong.total_k = 5;
  fa2_plan* plan = nullptr;
  CHECK(fa2_plan_create(nullptr, &wrong, device_under_test(), nullptr, &plan) == FA2_INVALID_REQUEST);
  CHECK(plan == nullptr);
  for (const char* const field : {"page_count = 0", "total_k = 5"}) {
    INFO(fa2_last_error());
    CHECK(std::strstr(fa2_last_error(), field) != nullptr);
  }
}
