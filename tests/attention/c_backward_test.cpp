// The backward through the C interface has the same bits as through the C++ interface.
#include <doctest/doctest.h>
#include <fa2/backward.h>
#include <fa2/c_backward.h>
#include <runtime/device.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../support/c_calls.h"
#include "../support/device_under_test.h"
#include "../support/gpu_backward.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using CPlan = std::unique_ptr<fa2_backward_plan, decltype(&fa2_backward_plan_destroy)>;

CPlan c_plan(const CContext& context, const fa2_problem& problem, std::int32_t gradients) {
  fa2_backward_plan* plan = nullptr;
  REQUIRE_MESSAGE(fa2_backward_plan_create(context.get(), &problem, device_under_test(), gradients, nullptr,
                                           &plan) == FA2_OK,
                  fa2_last_error());
  return {plan, fa2_backward_plan_destroy};
}

std::size_t workspace_bytes(const CPlan& plan) {
  std::size_t bytes = 0;
  REQUIRE(fa2_backward_plan_workspace_bytes(plan.get(), &bytes) == FA2_OK);
  return bytes;
}

/// Returns the bits of all gradients, one after the other.
std::vector<std::uint16_t> bits(const GuardedBackward& call) {
  std::vector<std::uint16_t> all;
  for (const reference::Tensor& gradient : {call.dq(), call.dk(), call.dv()}) {
    const std::vector<std::uint16_t> its = bits_of(gradient, call.forward.problem.dtype);
    all.insert(all.end(), its.begin(), its.end());
  }
  return all;
}

/// A problem in both interfaces.
struct Problem {
  AttentionProblem cpp{.head_dim = 64,
                       .mask = MaskKind::causal_bottom_right,
                       .batch = 2,
                       .heads_q = 2,
                       .heads_kv = 1,
                       .seqlen_q = 33,
                       .seqlen_k = 40};
  fa2_problem c = FA2_PROBLEM_INIT;

  Problem() {
    c.head_dim = 64;
    c.mask = FA2_CAUSAL_BOTTOM_RIGHT;
    c.batch = 2;
    c.heads_q = 2, c.heads_kv = 1;
    c.seqlen_q = 33, c.seqlen_k = 40;
  }
};

}  // namespace

TEST_CASE("c backward: calls and plans have the same bits as in C++") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const Problem problem;
  GuardedBackward call(problem.cpp);
  call.determinism = Determinism::bitwise;
  call.give_d_lse();
  call.upload();
  Context context(untuned());
  context.attention_backward(problem.cpp, call.args());
  expect_gradients(call);
  const std::vector<std::uint16_t> expected = bits(call);

  const CContext in_c = c_context();
  const CPlan plan = c_plan(in_c, problem.c, FA2_ALL_GRADIENTS | FA2_BITWISE);
  const CCall same(call.args());
  call.upload();
  CHECK_MESSAGE(fa2_backward_plan_run(plan.get(), &same.args, nullptr) == FA2_OK, fa2_last_error());
  CHECK(bits(call) == expected);

  call.upload();
  CHECK_MESSAGE(fa2_attention_backward(in_c.get(), &problem.c, &same.args, nullptr) == FA2_OK,
                fa2_last_error());
  CHECK(bits(call) == expected);
}

TEST_CASE("c backward: a plan for some of the gradients, with a workspace") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const Problem problem;
  GuardedBackward call(problem.cpp);
  call.wanted = {.dq = true, .dk = false, .dv = false};
  call.upload();
  const CContext context = c_context();
  const CPlan plan = c_plan(context, problem.c, FA2_DQ);
  CHECK(workspace_bytes(plan) == 768);  // 4 bytes * 2 * 2 * 33 rows, rounded up
  const DeviceBuffer workspace(workspace_bytes(plan));
  CCall with(call.args());
  with.args.workspace = workspace.data();
  CHECK_MESSAGE(fa2_backward_plan_run(plan.get(), &with.args, nullptr) == FA2_OK, fa2_last_error());
  expect_gradients(call);

  with.args.dk = with.args.dq;
  CHECK(fa2_backward_plan_run(plan.get(), &with.args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(std::strstr(fa2_last_error(), "dk = given, must be null") != nullptr);
}

TEST_CASE("c backward: a plan explains each of its kernels") {
  if (cannot_run()) return;
  const CContext context = c_context();
  const CPlan plan = c_plan(context, Problem().c, FA2_DQ);
  char* json = nullptr;
  REQUIRE(fa2_backward_plan_explain(plan.get(), &json) == FA2_OK);
  const std::string text = json;
  fa2_string_free(json);
  CAPTURE(text);
  CHECK(text.find("backward_delta") < text.find("backward_dq_sm80"));
  CHECK(text.find("backward_dq_sm80") != std::string::npos);
  CHECK(text.find("backward_dk_dv_sm80") == std::string::npos);
}
