// Tensors that end at a page boundary, with unmapped memory on either side: a kernel that reads or writes
// beyond its tensors faults.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <runtime/device.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::size_t kPage = std::size_t{2} << 20;

enum Tensor { kQ, kK, kV, kO, kDO, kDQ, kDK, kDV, kTensors };

/// A call with as many queries as keys, and as many heads of each. Tensors are contiguous (batch, seqlen,
/// heads, dim) or (total, heads, dim), and whole pages.
class Call {
 public:
  /// `lengths` are those of packed sequences; empty if batched. With `is_alone`, the memory next to the
  /// tensors is freed.
  Call(const AttentionProblem& problem, const std::vector<std::int32_t>& lengths, bool is_alone)
      : problem_(problem), lse_(statistics() * sizeof(float)), borders_((lengths.size() + 1) * 4) {
    std::vector<DeviceBuffer> neighbours;
    for (int i = 0; i < kTensors; ++i) {
      neighbours.emplace_back(32 * kPage);
      tensors_.emplace_back(elements() * sizeof(std::uint16_t));
      neighbours.emplace_back(32 * kPage);
      REQUIRE(tensors_.back().size() % kPage == 0);
    }
    for (const Tensor input : {kQ, kK, kV, kDO}) send_random(input);
    std::vector<std::int32_t> borders(lengths.size() + 1);
    std::partial_sum(lengths.begin(), lengths.end(), borders.begin() + 1);
    borders_.upload(borders.data(), borders_.size());
    if (!is_alone) kept_ = std::move(neighbours);
  }

  /// Returns the bits of O, dK and dV, which are the same in every run and at every address. The order of
  /// dQ's sums is not fixed.
  std::vector<std::uint16_t> run(Context& context) {
    BackwardArgs args;
    args.forward =
        bshd_args(problem_, data(kQ), data(kK), data(kV), data(kO), static_cast<float*>(lse_.data()));
    if (problem_.varlen)
      args.forward.cu_seqlens_q = args.forward.cu_seqlens_k =
          static_cast<const std::int32_t*>(borders_.data());
    context.attention(problem_, args.forward);
    args.d_out = data(kDO), args.dq = data(kDQ), args.dk = data(kDK), args.dv = data(kDV);
    args.d_out_strides = args.dq_strides = args.forward.q_strides;
    args.dk_strides = args.dv_strides = args.forward.k_strides;
    context.attention_backward(problem_, args);
    std::vector<std::uint16_t> bits;
    for (const Tensor output : {kO, kDK, kDV}) {
      const auto image = downloaded<std::uint16_t>(tensors_[output]);
      bits.insert(bits.end(), image.begin(), image.end());
    }
    return bits;
  }

 private:
  std::size_t statistics() const {
    const std::int64_t rows = problem_.varlen ? problem_.total_q : problem_.batch * problem_.seqlen_q;
    return static_cast<std::size_t>(rows * problem_.heads_q);
  }
  std::size_t elements() const { return statistics() * static_cast<std::size_t>(problem_.head_dim); }
  void* data(Tensor tensor) const { return tensors_[tensor].data(); }

  void send_random(Tensor input) {
    const Shape shape{1, 1, static_cast<std::int64_t>(statistics()), problem_.head_dim};
    const auto bits =
        bits_of(random_tensor(shape, problem_.dtype, static_cast<unsigned>(input)), problem_.dtype);
    tensors_[input].upload(bits.data(), tensors_[input].size());
  }

  AttentionProblem problem_;
  std::vector<DeviceBuffer> tensors_, kept_;
  DeviceBuffer lse_, borders_;
};

void expect_same_alone(const AttentionProblem& problem, const std::vector<std::int32_t>& lengths) {
  INFO(to_string(problem));
  Context context(untuned());
  const auto among_others = Call(problem, lengths, false).run(context);
  CHECK(Call(problem, lengths, true).run(context) == among_others);
}

}  // namespace

TEST_CASE("unmapped neighbours: packed sequences, whose last ends amid a tile of keys or of a warpgroup") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const std::array<std::vector<std::int32_t>, 3> mixes = {
      {{637, 300, 12, 75}, {512, 448, 64}, {1, 959, 10, 54}}};
  for (const int head_dim : {64, 128, 256}) {
    for (const auto& lengths : mixes) {
      for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right}) {
        AttentionProblem problem{.head_dim = head_dim, .mask = mask};
        problem.varlen = true;
        problem.batch = static_cast<std::int64_t>(lengths.size());
        problem.heads_q = problem.heads_kv = 2048 / head_dim;
        problem.seqlen_q = problem.seqlen_k = 1000;
        problem.total_q = problem.total_k = 1024;
        expect_same_alone(problem, lengths);
      }
    }
  }
}

TEST_CASE("unmapped neighbours: tiles of which half lies behind a batch's last row") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  for (const std::int64_t seqlen : {64, 192}) {
    AttentionProblem problem{.head_dim = 128};
    problem.heads_q = problem.heads_kv = 128;
    problem.seqlen_q = problem.seqlen_k = seqlen;
    expect_same_alone(problem, {});
  }
}
