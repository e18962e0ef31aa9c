// attention() on a GPU against the numerics contract: dtypes, head dims, masks, ragged lengths, grouped
// heads.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <reference/attention_reference.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

using namespace fa2;

namespace {

reference::Tensor random_tensor(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t dim,
                                DType dtype, std::mt19937& generator) {
  reference::Tensor t{batch, heads, rows, dim, {}};
  t.values.resize(static_cast<std::size_t>(batch * heads * rows * dim));
  std::normal_distribution<float> normal;
  for (float& x : t.values) x = reference::round_to(normal(generator), dtype);
  return t;
}

DeviceBuffer upload(const reference::Tensor& t, DType dtype) {
  std::vector<std::uint16_t> bits;
  for (const float x : t.values) bits.push_back(reference::to_bits(x, dtype));
  DeviceBuffer buffer(std::max<std::size_t>(1, bits.size() * 2));
  if (!bits.empty()) buffer.upload(bits.data(), bits.size() * 2);
  return buffer;
}

reference::Verdict run(Context& context, const AttentionProblem& problem, float scale) {
  const AttentionProblem p = problem.normalized();
  std::mt19937 generator(7);
  const auto q = random_tensor(p.batch, p.heads_q, p.seqlen_q, p.head_dim, p.dtype, generator);
  const auto k = random_tensor(p.batch, p.heads_kv, p.seqlen_k, p.head_dim, p.dtype, generator);
  const auto v = random_tensor(p.batch, p.heads_kv, p.seqlen_k, p.head_dim_v, p.dtype, generator);
  reference::Tensor o{p.batch, p.heads_q, p.seqlen_q, p.head_dim_v, {}};
  const auto count = static_cast<std::size_t>(p.batch * p.heads_q * p.seqlen_q * p.head_dim_v);
  const DeviceBuffer dq = upload(q, p.dtype), dk = upload(k, p.dtype), dv = upload(v, p.dtype);
  DeviceBuffer d_o(count * 2), d_lse(static_cast<std::size_t>(p.batch * p.heads_q * p.seqlen_q) * 4);
  d_o.fill(0xff);  // NaN: every element must be written
  d_lse.fill(0xff);
  AttentionArgs args =
      bhsd_args(p, dq.data(), dk.data(), dv.data(), d_o.data(), static_cast<float*>(d_lse.data()));
  args.softmax_scale = scale;
  context.attention(p, args);
  std::vector<std::uint16_t> bits(count);
  std::vector<float> lse(d_lse.size() / 4);
  d_o.download(bits.data(), bits.size() * 2);
  d_lse.download(lse.data(), d_lse.size());
  for (const std::uint16_t b : bits) o.values.push_back(reference::from_bits(b, p.dtype));
  return reference::check(p, q, k, v, static_cast<double>(scale), o, &lse);
}

}  // namespace

TEST_CASE("the numerics contract holds over dtypes, head dims, masks, lengths and groups") {
  if (device_count() == 0) {
    MESSAGE("skipped: no CUDA GPU");
    return;
  }
  const ScopedContext current(0);
  ContextOptions options;
  options.tune = TuneMode::off;
  Context context(options);
  const std::vector<std::pair<int, int>> lengths = {{1, 129}, {127, 113}, {65, 64}, {251, 333}, {64, 0}};
  std::size_t i = 0;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const auto& [d, dv] :
         std::vector<std::pair<int, int>>{{8, 8}, {64, 64}, {72, 40}, {128, 128}, {192, 128}, {256, 256}}) {
      for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
        for (const auto& [sq, sk] : lengths) {
          AttentionProblem p;
          p.dtype = dtype;
          p.mask = mask;
          p.head_dim = d;
          p.head_dim_v = dv;
          p.batch = 2;
          p.heads_q = 4;
          p.heads_kv = std::vector<int>{4, 2, 1}[i % 3];
          p.seqlen_q = sq;
          p.seqlen_k = sk;
          const float scale =
              std::vector<float>{1.0f, -0.5f, 0.0f, 3.0f}[i++ % 4] / std::sqrt(static_cast<float>(d));
          const reference::Verdict verdict = run(context, p, scale);
          INFO(to_string(p), " scale ", scale);
          CHECK_MESSAGE(verdict.ok, verdict.message);
        }
      }
    }
  }
}
