// Decoding over keys that ranks hold: each has some keys of every sequence, and some heads of the queries.
#include <doctest/doctest.h>
#include <fa2/context_parallel.h>
#include <parallel/thread_group.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "../support/float_tensor.h"
#include "../support/shards.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using reference::Tensor;

/// Returns some heads of every batch entry.
Tensor heads_of(const Tensor& whole, std::int64_t begin, std::int64_t end) {
  Tensor part{whole.batch, end - begin, whole.rows, whole.dim, {}};
  for (std::int64_t b = 0; b < whole.batch; ++b) {
    const auto entry = whole.values.begin() + b * whole.heads * whole.rows * whole.dim;
    part.values.insert(part.values.end(), entry + begin * whole.rows * whole.dim,
                       entry + end * whole.rows * whole.dim);
  }
  return part;
}

struct DecodeCase {
  std::string name;
  AttentionProblem problem;                ///< over all keys
  std::vector<std::int64_t> keys_of_rank;  ///< add up to seqlen_k
};

std::vector<DecodeCase> cases() {
  const auto problem = [](std::int64_t batch, std::int64_t queries, std::int64_t keys) {
    AttentionProblem p =
        grouped_problem(DType::bf16, MaskKind::none, 64, static_cast<int>(queries), static_cast<int>(keys));
    p.batch = batch, p.heads_q = 12, p.heads_kv = 2;
    return p;
  };
  std::vector<DecodeCase> all{{"two ranks", problem(3, 1, 200), {130, 70}},
                              {"one rank", problem(1, 1, 90), {90}},
                              {"a rank without keys", problem(2, 3, 150), {100, 0, 50}},
                              {"many ranks", problem(1, 2, 60), {10, 10, 1, 19, 10, 10}}};
  all.push_back({"sinks and softcap", problem(2, 1, 120), {60, 60}});
  all.back().problem.sinks = true, all.back().problem.softcap = true;
  return all;
}

/// Returns all rows of a tensor with these extents.
Tensor tensor_of(const FloatTensor& floats, const Tensor& like) {
  SequenceRowsList rows;
  for (std::int64_t b = 0; b < like.batch; ++b) rows.push_back({b, 0, like.rows});
  return {like.batch, like.heads, like.rows, like.dim, floats.rows(rows)};
}

constexpr const char* kCopies = "copies, into memory that ranks map";
constexpr const char* kRefused =
    "the communicator: that of rank 0 allows no peer memory, or FA2_PEER_MEMORY is 0 there";
constexpr const char* kThreads = "the communicator: ranks 0 and 1 are threads of one process";

/// Runs a rank, and returns its O and LSE.
std::pair<Tensor, std::vector<float>> run_rank(Context& context, Communicator& own, const DecodeCase& of,
                                               const GuardedCall& whole,
                                               ContextParallelDecodeExplanation* explanation = nullptr) {
  const auto rank = static_cast<std::size_t>(own.rank());
  const std::int64_t heads = of.problem.heads_q / own.size(), first_head = own.rank() * heads;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < rank; ++i) begin += of.keys_of_rank[i];
  const std::vector<Slice> keys{{begin, begin + of.keys_of_rank[rank]}};
  AttentionProblem p = of.problem;
  p.seqlen_k = keys[0].size();
  const DType dtype = p.dtype;
  const PlacedTensor q(heads_of(whole.q, first_head, first_head + heads), dtype, guarded_bshd),
      k(rows_of(whole.k, keys), dtype, guarded_bshd), v(rows_of(whole.v, keys), dtype, guarded_bhsd),
      out(heads_of(whole.q, first_head, first_head + heads), dtype, guarded_bhsd);
  const FloatTensor floats(out.layout);
  DeviceBuffer lse(static_cast<std::size_t>(p.batch * heads * p.seqlen_q) * sizeof(float));
  AttentionArgs args = whole.args;
  args.q = q.data(), args.q_strides = q.layout.strides;
  args.k = k.data(), args.k_strides = k.layout.strides;
  args.v = v.data(), args.v_strides = v.layout.strides;
  args.out = p.float32_out ? floats.data() : out.data(), args.out_strides = out.layout.strides;
  args.lse = static_cast<float*>(lse.data());
  const ContextParallelDecodePlan plan = context.context_parallel_decode_plan(p, own);
  DeviceBuffer workspace(plan.workspace_bytes());
  workspace.fill(0xff);
  if (own.rank() % 2 == 0) args.workspace = workspace.data();
  plan.run(args);
  if (explanation != nullptr) *explanation = plan.explain();
  return {p.float32_out ? tensor_of(floats, out.read()) : out.read(), downloaded<float>(lse)};
}

}  // namespace

TEST_CASE(
    "context parallel decoding: parts of every rank's keys are merged into attention over all of them") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  std::uint64_t seed = 0;
  for (const DecodeCase& of : cases()) {
    INFO(of.name);
    GuardedCall whole(of.problem);
    whole.upload();
    run_and_expect_contract(context, whole);
    const Tensor out = whole.out(), lse{out.batch, out.heads, out.rows, 1, whole.lse()};
    const int ranks = static_cast<int>(of.keys_of_rank.size());
    ++seed;
    ThreadGroup(ranks, rank_threads(seed % 2 == 0, seed)).run([&](Communicator& own) {
      const ScopedContext on_rank(device_under_test());
      const auto [part, sums] = run_rank(context, own, of, whole);
      const std::int64_t heads = of.problem.heads_q / ranks, first = own.rank() * heads;
      CHECK(reference::errors_of(part, heads_of(out, first, first + heads)).largest <= 0.02);
      const std::vector<float> expected = heads_of(lse, first, first + heads).values;
      for (std::size_t i = 0; i < sums.size(); ++i)
        CHECK(sums[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    });
  }
}

TEST_CASE("context parallel decoding: through peer memory, the bits of messages") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const bool is_mapped =
      device_under_test() == kInterpreterDevice;  // ranks that are threads map no memory of a GPU
  Context context(untuned());
  for (const DecodeCase& of : cases()) {
    INFO(of.name);
    const GuardedCall whole(of.problem);
    const int ranks = static_cast<int>(of.keys_of_rank.size());
    if (ranks == 1) continue;  // nothing travels
    std::vector<std::vector<float>> expected(of.keys_of_rank.size());
    for (const bool peer_memory : {false, true}) {
      ThreadGroupOptions threads = rank_threads(false, 2);
      threads.peer_memory = peer_memory;
      ThreadGroup(ranks, threads).run([&](Communicator& own) {
        const ScopedContext on_rank(device_under_test());
        std::vector<float>& values = expected[static_cast<std::size_t>(own.rank())];
        ContextParallelDecodeExplanation e;
        const std::vector<float> found = run_rank(context, own, of, whole, &e).first.values;
        if (!peer_memory)
          values = found;
        else
          CHECK(found == values);
        CHECK((e.peer_bytes > 0) == (peer_memory && is_mapped));
        CHECK((e.workspace_bytes == 0) == (peer_memory && is_mapped));
        CHECK(e.transport == (!peer_memory ? kRefused : is_mapped ? kCopies : kThreads));
      });
    }
  }
}

TEST_CASE("context parallel decoding: O is rounded once, or not at all") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (DecodeCase of : cases()) {
    if (of.problem.sinks) continue;
    INFO(of.name);
    GuardedCall whole(of.problem);
    // All keys weigh the same, so that probabilities are exact.
    whole.q = constant_tensor({whole.q.batch, whole.q.heads, whole.q.rows, whole.q.dim}, 0);
    const Tensor exact = reference::attention_f64(whole.problem, whole.q, whole.k, whole.v, whole.rule()).out;
    const int ranks = static_cast<int>(of.keys_of_rank.size());
    for (const bool are_floats : {false, true}) {
      of.problem.float32_out = are_floats;
      ThreadGroup(ranks, rank_threads(are_floats, 1)).run([&](Communicator& own) {
        const ScopedContext on_rank(device_under_test());
        const Tensor part = run_rank(context, own, of, whole).first;
        const std::int64_t heads = of.problem.heads_q / ranks, first = own.rank() * heads;
        const std::vector<float> expected = heads_of(exact, first, first + heads).values;
        REQUIRE(part.values.size() == expected.size());
        double worst = 0;  // beyond the largest error of one rounding
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const double of_rounding = are_floats ? 0 : std::ldexp(1.0, std::ilogb(expected[i]) - 8);
          worst = std::max(worst, std::abs(double{part.values[i]} - expected[i]) - of_rounding);
        }
        CHECK(worst <= 1e-6);
      });
    }
  }
}

TEST_CASE("context parallel decoding: what it cannot compute is refused on every rank") {
  if (cannot_run()) return;
  Context context(untuned());
  ThreadGroup(2, rank_threads(false, 1)).run([&](Communicator& own) {
    const ScopedContext on_rank(device_under_test());
    AttentionProblem p = cases()[0].problem;
    p.heads_q = 3, p.heads_kv = 3, p.max_logits = true, p.dropout = true;
    std::vector<std::string> found;
    try {
      context.context_parallel_decode_plan(p, own);
    } catch (const InvalidRequest& error) {
      for (const Violation& violation : error.violations()) found.push_back(to_string(violation));
    }
    CHECK(found ==
          std::vector<std::string>{"heads_q = 3, must be a multiple of the 2 ranks of the communicator",
                                   "max_logits = true, must be false: ranks do not exchange logits",
                                   "dropout = true, must be false: keys have no numbers in their sequence"});
    p = cases()[0].problem;
    p.seqlen_k = 10 + own.rank();  // may differ
    CHECK_NOTHROW(context.context_parallel_decode_plan(p, own));
    p.softcap = own.rank() == 1;
    CHECK_THROWS_AS(context.context_parallel_decode_plan(p, own), InvalidRequest);
  });
}
