// Decoding over keys that ranks hold, through the C interface: the bits of C++, and nothing exchanged for a wrong call.
#include <doctest/doctest.h>
#include <fa2/c_context_parallel.h>
#include <fa2/context_parallel.h>
#include <parallel/thread_group.h>
#include <runtime/device.h>

#include <cstdint>
#include <string>

#include "../support/c_calls.h"
#include "../support/c_ranks.h"
#include "../support/cache_fixtures.h"
#include "../support/shards.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns the problem of a rank's own keys, whose number differs between ranks, with all query heads.
AttentionProblem problem_of_rank(int rank) {
  AttentionProblem p = grouped_problem(DType::bf16, MaskKind::none, 64, 2, 70 + 50 * rank);
  p.batch = 3, p.heads_q = 8, p.heads_kv = 2, p.varlen = true;
  return p;
}

/// Returns a call with a rank's heads of Q and O. Sequences have fewer keys than the cache has rows.
GuardedCall call_of_rank(const AttentionProblem& problem, const Communicator& own) {
  AttentionProblem p = problem;
  p.heads_q /= own.size();
  GuardedCall call(p);
  call.tables.seqused_k = {70, 0, 33};
  call.upload();
  return call;
}

fa2_problem c_problem(const AttentionProblem& p) {
  fa2_problem problem = FA2_PROBLEM_INIT;
  problem.dtype = FA2_BF16, problem.head_dim = p.head_dim, problem.varlen = p.varlen;
  problem.batch = p.batch, problem.heads_q = p.heads_q, problem.heads_kv = p.heads_kv;
  problem.seqlen_q = p.seqlen_q, problem.seqlen_k = p.seqlen_k;
  return problem;
}

fa2_args c_args(const AttentionArgs& from) {
  fa2_args args = FA2_ARGS_INIT;
  args.q = tensor(from.q, from.q_strides);
  args.k = tensor(from.k, from.k_strides);
  args.v = tensor(from.v, from.v_strides);
  args.out = tensor(from.out, from.out_strides);
  args.lse = from.lse;
  args.seqused_k = from.seqused_k;
  return args;
}

Owned<fa2_context_parallel_decode_plan> c_plan(fa2_context* context, const AttentionProblem& problem,
                                               fa2_communicator* communicator) {
  const fa2_problem of = c_problem(problem);
  fa2_context_parallel_decode_plan* plan = nullptr;
  require_ok(fa2_context_parallel_decode_plan_create(context, &of, communicator, nullptr, FA2_CURRENT_DEVICE,
                                                     &plan));
  return {plan, fa2_context_parallel_decode_plan_destroy};
}

/// A communicator that counts its exchanges.
class CountedCommunicator final : public Communicator {
 public:
  explicit CountedCommunicator(Communicator& from) : from_(from) {}
  int rank() const noexcept override { return from_.rank(); }
  int size() const noexcept override { return from_.size(); }
  std::uint64_t exchange(const Transfer* transfers, std::size_t count, Stream stream) override {
    ++exchanges;
    return from_.exchange(transfers, count, stream);
  }
  void wait(std::uint64_t number) override { from_.wait(number); }
  void all_gather(const void* mine, std::size_t bytes, void* all) override {
    from_.all_gather(mine, bytes, all);
  }
  void check() override { from_.check(); }

  int exchanges = 0;

 private:
  Communicator& from_;
};

}  // namespace

TEST_CASE("c context parallel decoding: the bits of C++") {
  if (cannot_run()) return;
  const CContext context = c_context();
  Context cpp(untuned());
  ThreadGroup(2, rank_threads(true, 3)).run([&](Communicator& own) {
    const ScopedContext on_rank(device_under_test());
    const AttentionProblem problem = problem_of_rank(own.rank());
    const GuardedCall call = call_of_rank(problem, own), expected = call_of_rank(problem, own);
    const Owned<fa2_communicator> communicator = c_communicator(own);
    const auto plan = c_plan(context.get(), problem, communicator.get());
    std::size_t bytes = 0;
    require_ok(fa2_context_parallel_decode_plan_workspace_bytes(plan.get(), &bytes));
    const DeviceBuffer workspace(bytes);
    fa2_args args = c_args(call.args);
    args.workspace = workspace.data();
    require_ok(fa2_context_parallel_decode_plan_run(plan.get(), &args, nullptr));
    const ContextParallelDecodePlan like = cpp.context_parallel_decode_plan(problem, own);
    like.run(expected.args);
    CHECK(call.out().values == expected.out().values);
    CHECK(call.lse() == expected.lse());
    CHECK(call.stray_writes() == "");
    CHECK(bytes == like.workspace_bytes());
    char* json = nullptr;
    require_ok(fa2_context_parallel_decode_plan_explain(plan.get(), &json));
    CHECK(std::string(json).find("\"kernels\"") != std::string::npos);
    fa2_string_free(json);
  });
}

TEST_CASE("c context parallel decoding: a wrong call lists its mistakes, and exchanges nothing") {
  if (cannot_run()) return;
  const ScopedEnvironment checked("FA2_CHECK", "1");
  const CContext context = c_context();
  ThreadGroup(2, rank_threads(false, 4)).run([&](Communicator& group) {
    const ScopedContext on_rank(device_under_test());
    CountedCommunicator own(group);
    const Owned<fa2_communicator> communicator = c_communicator(own);
    const AttentionProblem problem = problem_of_rank(0);
    fa2_problem wrong = c_problem(problem);
    wrong.dtype = 77, wrong.head_dim = 65;
    fa2_context_parallel_decode_plan* none = nullptr;
    CHECK(fa2_context_parallel_decode_plan_create(context.get(), &wrong, nullptr, nullptr, -7, &none) ==
          FA2_INVALID_REQUEST);
    CHECK(none == nullptr);
    for (const char* name : {"dtype = 77", "head_dim = 65", "communicator = NULL", "device = -7"})
      CHECK(std::string(fa2_last_error()).find(name) != std::string::npos);
    const auto plan = c_plan(context.get(), problem, communicator.get());
    const int before = own.exchanges;
    GuardedCall call = call_of_rank(problem, own);
    const auto expect_refused = [&](const fa2_args& args, const std::string& text) {
      CHECK(fa2_context_parallel_decode_plan_run(plan.get(), &args, nullptr) == FA2_INVALID_REQUEST);
      CHECK_MESSAGE(std::string(fa2_last_error()).find(text) != std::string::npos, fa2_last_error());
    };
    fa2_args args = c_args(call.args);
    args.k.data = nullptr, args.out.strides[2] = 1;
    expect_refused(args, "2 rules broken");
    args = c_args(call.args);
    args.reserved = 1;
    expect_refused(args, "reserved = 1");
    call.tables.seqused_k = {70, 71, 0};
    call.upload();
    expect_refused(c_args(call.args), "seqused_k[1] = 71");
    CHECK(own.exchanges == before);
    CHECK(call.is_untouched());
  });
  CHECK(fa2_context_parallel_decode_plan_run(nullptr, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(std::string(fa2_last_error()).find("plan = NULL") != std::string::npos);
  CHECK(fa2_context_parallel_decode_plan_destroy(nullptr) == FA2_OK);
}
