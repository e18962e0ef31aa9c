// Random inputs: made once on the host, repeated on the device.
#include <api/trial_data.h>
#include <tools/bench_inputs.h>

#include <algorithm>
#include <set>

namespace fa2::tools {
namespace {

constexpr std::size_t kBlock = 2 << 20;  ///< values, 4 MB
/// Odd, so that no row of one tensor starts where a row of another does: equal rows of Q and K would make one
/// key of each query win.
constexpr std::size_t kShift = 333333;

std::size_t count_of(std::int64_t batch, std::int64_t rows, std::int64_t heads, std::int64_t dim) {
  return static_cast<std::size_t>(batch * rows * heads * dim);
}

struct Sizes {
  std::size_t q = 0, k = 0, v = 0, o = 0;  ///< elements

  void fit(const AttentionProblem& p) {
    q = std::max(q, count_of(p.batch, p.seqlen_q, p.heads_q, p.head_dim));
    k = std::max(k, count_of(p.batch, p.seqlen_k, p.heads_kv, p.head_dim));
    v = std::max(v, count_of(p.batch, p.seqlen_k, p.heads_kv, p.head_dim_v));
    o = std::max(o, count_of(p.batch, p.seqlen_q, p.heads_q, p.head_dim_v));
  }
};

DeviceBuffer repeated(std::vector<std::uint16_t> block, std::size_t shift, std::size_t count) {
  std::rotate(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(shift), block.end());
  const std::size_t bytes = count * sizeof block[0], block_bytes = block.size() * sizeof block[0];
  DeviceBuffer buffer(bytes);
  for (std::size_t at = 0; at < bytes; at += block_bytes) {
    buffer.upload(block.data(), std::min(block_bytes, bytes - at), at);
  }
  return buffer;
}

Sizes sizes_of(const std::vector<AttentionProblem>& problems) {
  Sizes sizes;
  for (const AttentionProblem& problem : problems) sizes.fit(problem);
  return sizes;
}

}  // namespace

BenchInputs::BenchInputs(const std::vector<AttentionProblem>& problems)
    : o_(sizes_of(problems).o * sizeof(std::uint16_t)) {
  const Sizes sizes = sizes_of(problems);
  std::set<DType> dtypes;
  for (const AttentionProblem& problem : problems) dtypes.insert(problem.dtype);
  for (const DType dtype : dtypes) {
    const std::vector<std::uint16_t> block = normal_values(kBlock, dtype);
    inputs_.emplace(dtype, Tensors{repeated(block, 0, sizes.q), repeated(block, kShift, sizes.k),
                                   repeated(block, 2 * kShift, sizes.v)});
  }
}

AttentionArgs BenchInputs::args(const AttentionProblem& problem) const {
  const Tensors& in = inputs_.at(problem.dtype);
  return bshd_args(problem, in.q.data(), in.k.data(), in.v.data(), o_.data());
}

}  // namespace fa2::tools
