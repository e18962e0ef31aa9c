// 512k tokens on two ranks of one GPU, which has 4 GiB of free memory: outputs and gradients are those of one device.
#include <doctest/doctest.h>
#include <fa2/context_parallel.h>
#include <fa2/errors.h>
#include <parallel/thread_group.h>
#include <runtime/device.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../support/gpu_attention.h"
#include "../support/shards.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using Words = std::vector<std::uint16_t>;

constexpr std::int64_t kTokens = 1 << 19, kHeadsQ = 2, kHeadsKv = 1, kDim = 64;

AttentionProblem problem_of(std::int64_t tokens) {
  AttentionProblem p{.dtype = DType::bf16, .head_dim = kDim, .mask = MaskKind::causal_bottom_right};
  p.heads_q = kHeadsQ, p.heads_kv = kHeadsKv;
  p.seqlen_q = p.seqlen_k = tokens;
  return p;
}

std::int64_t words_of(std::int64_t tokens, std::int64_t heads) {
  return tokens * heads * kDim;
}

/// Returns bfloat16 numbers of either sign, of 0.5 to 2.
Words numbers(std::int64_t heads, std::uint32_t seed) {
  std::mt19937 random(seed);
  Words block((1 << 16) + 7), all;
  for (std::uint16_t& word : block) word = static_cast<std::uint16_t>((random() & 0x80ff) | 0x3f00);
  all.reserve(static_cast<std::size_t>(words_of(kTokens, heads)) + block.size());
  while (static_cast<std::int64_t>(all.size()) < words_of(kTokens, heads))
    all.insert(all.end(), block.begin(), block.end());
  all.resize(static_cast<std::size_t>(words_of(kTokens, heads)));
  return all;
}

/// Returns the rows of a rank.
Words rows_of(const Words& whole, std::int64_t heads, const std::vector<Slice>& slices) {
  Words rows;
  for (const Slice& slice : slices)
    rows.insert(rows.end(), whole.begin() + words_of(slice.begin, heads),
                whole.begin() + words_of(slice.end, heads));
  return rows;
}

/// Q, K, V and dO of a call, and what it writes.
class Call {
 public:
  explicit Call(const std::array<Words, 4>& inputs)
      : tokens_(static_cast<std::int64_t>(inputs[0].size()) / (kHeadsQ * kDim)) {
    const std::size_t queries = bytes(kHeadsQ), keys = bytes(kHeadsKv);
    for (const std::size_t size : {queries, keys, keys, queries, queries, queries, keys, keys})
      memory_.emplace_back(size);
    for (std::size_t i = 0; i < inputs.size(); ++i) memory_[i].upload(inputs[i].data(), memory_[i].size());
    memory_.emplace_back(static_cast<std::size_t>(kHeadsQ * tokens_) * sizeof(float));
  }

  BackwardArgs args() const {
    const auto data = [&](std::size_t number) { return memory_[number].data(); };
    BackwardArgs a = backward_args(
        bshd_args(problem_of(tokens_), data(0), data(1), data(2), data(4), static_cast<float*>(data(8))));
    a.d_out = data(3), a.dq = data(5), a.dk = data(6), a.dv = data(7);
    a.d_out_strides = a.dq_strides = a.forward.q_strides;
    a.dk_strides = a.dv_strides = a.forward.k_strides;
    return a;
  }

  Words out() const { return read(4); }
  /// Returns dQ, dK and dV.
  std::array<Words, 3> gradients() const { return {read(5), read(6), read(7)}; }

 private:
  std::size_t bytes(std::int64_t heads) const {
    return static_cast<std::size_t>(words_of(tokens_, heads)) * 2;
  }
  Words read(std::size_t number) const {
    Words words(memory_[number].size() / 2);
    memory_[number].download(words.data(), memory_[number].size());
    return words;
  }

  std::int64_t tokens_;
  std::vector<DeviceBuffer> memory_;
};

float value_of(std::uint16_t word) {
  const std::uint32_t bits = static_cast<std::uint32_t>(word) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Returns the largest difference of some elements, over the largest of these.
float difference(const Words& of, const Words& expected) {
  float largest = 0, most = 0;
  for (std::size_t i = 0; i < of.size(); i += 61) {
    most = std::max(most, std::abs(value_of(expected[i])));
    largest = std::max(largest, std::abs(value_of(of[i]) - value_of(expected[i])));
  }
  return largest / most;
}

/// Computes all tokens on one device; if there is too little memory, says so and returns nothing.
std::optional<std::pair<Words, std::array<Words, 3>>> on_one_device(Context& context,
                                                                    const std::array<Words, 4>& inputs) {
  try {
    const Call call(inputs);
    AttentionProblem problem = problem_of(kTokens);
    problem.batch_invariant = true;
    context.attention(problem, call.args().forward);
    problem.batch_invariant = false;
    context.attention_backward(problem, call.args());
    return std::pair{call.out(), call.gradients()};
  } catch (const CudaError& error) {
    MESSAGE("skipped: " << std::string(error.what()));
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("512k tokens on two ranks: outputs and gradients of one device") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  Context context(untuned());
  const std::array<Words, 4> inputs{numbers(kHeadsQ, 1), numbers(kHeadsKv, 2), numbers(kHeadsKv, 3),
                                    numbers(kHeadsQ, 4)};
  const std::int64_t heads[] = {kHeadsQ, kHeadsKv, kHeadsKv, kHeadsQ};
  const auto expected = on_one_device(context, inputs);
  if (!expected) return;
  const ShardLayout layout = ShardLayout::zigzag(kTokens, 2, 128);
  for (const ContextParallelScheme scheme :
       {ContextParallelScheme::gather_heads, ContextParallelScheme::staged}) {
    INFO(to_string(scheme));
    ThreadGroup(2, rank_threads(false, 1)).run([&](Communicator& own) {
      const ScopedContext on_rank(0);
      const std::vector<Slice>& slices = layout.ranks[static_cast<std::size_t>(own.rank())];
      std::array<Words, 4> mine;
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = rows_of(inputs[i], heads[i], slices);
      const Call call(mine);
      AttentionProblem problem = problem_of(kTokens);
      ContextParallelOptions options{.scheme = scheme};
      problem.batch_invariant = true;
      const ContextParallelPlan forward = context.context_parallel_plan(problem, layout, own, options);
      forward.run(call.args().forward);
      const Words out = rows_of(expected->first, kHeadsQ, slices);
      if (scheme == ContextParallelScheme::gather_heads)
        CHECK(call.out() == out);
      else
        CHECK(difference(call.out(), out) <= 0.01F);
      problem.batch_invariant = false;
      options.gradients = Gradients{};
      const ContextParallelPlan plan = context.context_parallel_plan(problem, layout, own, options);
      plan.run_backward(call.args());
      const std::array<Words, 3> gradients = call.gradients();
      for (std::size_t i = 0; i < gradients.size(); ++i)
        CHECK(difference(gradients[i], rows_of(expected->second[i], heads[i], slices)) <= 0.02F);
    });
  }
}
