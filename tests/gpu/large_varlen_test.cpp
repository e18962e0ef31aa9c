// Packed tensors of more than 2^31 elements, on a GPU with 17 GiB of free memory.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <runtime/device.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::int64_t kHeads = 8, kDim = 128;
constexpr std::int64_t kFarRow =
    (std::int64_t{1} << 31) / (kHeads * kDim);  ///< elements of this row and later ones lie beyond 2^31
/// Two sequences. The first reaches up to the second, far behind, but only its first kNear rows count.
constexpr std::int32_t kNear = 131, kFar = 197;
constexpr std::int32_t kBorders[] = {0, kFarRow + 5, kFarRow + 5 + kFar};
constexpr std::int64_t kTotal = kBorders[2] + 3;

constexpr std::size_t bytes_of_rows(std::int64_t rows) {
  return static_cast<std::size_t>(rows * kHeads * kDim) * sizeof(std::uint16_t);
}

/// Returns the same sequences without the rows between them.
AttentionProblem compact_problem() {
  AttentionProblem p{.dtype = DType::bf16, .head_dim = kDim, .mask = MaskKind::causal_bottom_right};
  p.varlen = true;
  p.batch = 2;
  p.heads_q = kHeads;
  p.seqlen_q = p.seqlen_k = kFar;
  p.total_q = p.total_k = kNear + kFar;
  return p;
}

/// Returns the layout of a contiguous (total, heads, dim).
Layout packed(const Shape& s) {
  return {s, TensorStrides::bshd(s.rows, s.heads, s.dim), 0, s.rows * s.heads * s.dim};
}

/// Q, K, V and O of kTotal rows. Rows of no sequence are NaN.
class FarTensors {
 public:
  void send(const GuardedCall& compact) {
    const reference::Tensor* const tensors[] = {&compact.q, &compact.k, &compact.v};
    for (std::size_t i = 0; i < 3; ++i) {
      const Layout layout = packed({1, kHeads, kNear + kFar, kDim});
      std::vector<std::uint16_t> image(static_cast<std::size_t>(layout.total));
      scatter(*tensors[i], layout, compact.problem.dtype, image);
      buffers_[i].fill(0xff);
      buffers_[i].upload(image.data(), bytes_of_rows(kNear));
      buffers_[i].upload(image.data() + kNear * kHeads * kDim, bytes_of_rows(kFar),
                         bytes_of_rows(kBorders[1]));
    }
    buffers_[3].fill(0xff);
    lse_.fill(0xff);
    borders_.upload(kBorders, sizeof kBorders);
    used_.upload(&kUsed, sizeof kUsed);
  }

  AttentionArgs args(const AttentionProblem& problem) const {
    AttentionArgs args = bshd_args(problem, buffers_[0].data(), buffers_[1].data(), buffers_[2].data(),
                                   buffers_[3].data(), static_cast<float*>(lse_.data()));
    args.cu_seqlens_q = args.cu_seqlens_k = static_cast<const std::int32_t*>(borders_.data());
    args.seqused_q = args.seqused_k = static_cast<const std::int32_t*>(used_.data());
    return args;
  }

  reference::Tensor out(DType dtype) const {
    const Layout layout = packed({1, kHeads, kNear + kFar, kDim});
    std::vector<std::uint16_t> image(static_cast<std::size_t>(layout.total));
    buffers_[3].download(image.data(), bytes_of_rows(kNear));
    buffers_[3].download(image.data() + kNear * kHeads * kDim, bytes_of_rows(kFar),
                         bytes_of_rows(kBorders[1]));
    return gather(image, layout, dtype);
  }

  std::vector<float> lse() const {
    std::vector<float> all(static_cast<std::size_t>(kHeads * kTotal)), values;
    lse_.download(all.data(), lse_.size());
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const auto head = all.begin() + h * kTotal;
      values.insert(values.end(), head, head + kNear);
      values.insert(values.end(), head + kBorders[1], head + kBorders[2]);
    }
    return values;
  }

  /// Returns whether the rows next to the sequences are still NaN.
  bool is_clean() const {
    std::vector<std::uint32_t> words(bytes_of_rows(3) / sizeof(std::uint32_t));
    for (const std::int64_t row :
         {std::int64_t{kNear}, std::int64_t{kBorders[1] - 3}, std::int64_t{kBorders[2]}}) {
      buffers_[3].download(words.data(), bytes_of_rows(3), bytes_of_rows(row));
      for (const std::uint32_t word : words) {
        if (word != 0xffffffff) return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::int32_t kUsed[] = {kNear, kFar};
  DeviceBuffer buffers_[4] = {DeviceBuffer(bytes_of_rows(kTotal)), DeviceBuffer(bytes_of_rows(kTotal)),
                              DeviceBuffer(bytes_of_rows(kTotal)), DeviceBuffer(bytes_of_rows(kTotal))};
  DeviceBuffer lse_{static_cast<std::size_t>(kHeads * kTotal) * sizeof(float)};
  DeviceBuffer borders_{sizeof kBorders}, used_{sizeof kUsed};
};

/// Returns the tensors; if there is too little memory, says so and returns nothing.
std::optional<FarTensors> far_tensors() {
  try {
    return FarTensors();
  } catch (const CudaError& error) {
    MESSAGE("skipped: " << std::string(error.what()));
    return std::nullopt;
  }
}

void expect_contract_far(const std::string& config, const GuardedCall& compact, FarTensors& far) {
  INFO(config);
  Context context(pinning(parse_config(config)));
  far.send(compact);
  AttentionProblem problem = compact.problem;
  problem.total_q = problem.total_k = kTotal;
  context.attention(problem, far.args(problem));
  const std::vector<float> lse = far.lse();
  reference::ScoreRule rule = 1 / std::sqrt(double{kDim});
  rule.numbers.cu_seqlens_q = compact.tables.cu_seqlens_q.data();
  rule.numbers.cu_seqlens_k = compact.tables.cu_seqlens_k.data();
  const reference::Verdict verdict =
      reference::check(compact.problem, compact.q, compact.k, compact.v, rule, far.out(problem.dtype), &lse);
  CHECK_MESSAGE(verdict.ok, verdict.message);
  CHECK(far.is_clean());
}

}  // namespace

TEST_CASE("packed tensors of more than 2^31 elements") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  std::optional<FarTensors> far = far_tensors();
  if (!far) return;
  GuardedCall compact(compact_problem());
  compact.tables.cu_seqlens_q = compact.tables.cu_seqlens_k = {0, kNear, kNear + kFar};
  expect_contract_far("kernel=forward_sm80,tile_m=128,tile_n=64,warps=8,stages=1", compact, *far);
  if (cannot_run_sm_90a()) return;
  for (const std::string schedule : {"0", "1", "2"})
    expect_contract_far(
        "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=2,q_buffers=1,overlap=1,schedule=" +
            schedule,
        compact, *far);
}
