// Random inputs, made once on the host and repeated on the device.
#include <generator/key_value_format.h>
#include <generator/sequences.h>
#include <operation/operands/rows.h>
#include <planning/trials/trial_data.h>
#include <tools/bench_inputs.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <type_traits>

namespace fa2::tools {
namespace {

constexpr std::size_t kBlock = 2 << 20;  ///< values; 4 MB
/// Odd, so that no row of one tensor starts where a row of another does. With equal rows of Q and K, one key
/// of each query would dominate.
constexpr std::size_t kShift = 333333;

std::size_t count_of(const Entries& entries, std::int64_t heads, std::int64_t dim) {
  return static_cast<std::size_t>(entries.count * entries.rows * heads * dim);
}

/// Returns the distance between copies of K or V; elements, in whole cache lines.
std::size_t copy_stride(const AttentionProblem& p, std::int64_t dim) {
  constexpr std::size_t kLine = 128;
  return (count_of(k_entries(p), p.heads_kv, dim) + kLine - 1) / kLine * kLine;
}

struct Sizes {
  std::size_t q = 0, k = 0, v = 0, out = 0, lse = 0, max_logits = 0;  ///< elements

  void fit(const AttentionProblem& p, int copies) {
    const auto count = static_cast<std::size_t>(copies);
    q = std::max(q, count_of(q_entries(p), p.heads_q, p.head_dim));
    k = std::max(k, copy_stride(p, p.head_dim) * count);
    v = std::max(v, copy_stride(p, p.head_dim_v) * count);
    out = std::max(out, count_of(q_entries(p), p.heads_q, p.head_dim_v));
    lse = std::max(lse, count_of(q_entries(p), p.heads_q, 1));
    if (p.max_logits) max_logits = std::max(max_logits, static_cast<std::size_t>(p.batch * p.heads_q));
  }
};

/// Returns the slopes of the ALiBi paper: 2^(-8 / heads), its square, and so on.
DeviceBuffer slopes_of(std::int64_t heads) {
  std::vector<float> slopes;
  for (std::int64_t h = 1; h <= heads; ++h)
    slopes.push_back(std::exp2(-8 * static_cast<float>(h) / static_cast<float>(heads)));
  const std::size_t bytes = slopes.size() * sizeof slopes[0];
  DeviceBuffer buffer(bytes);
  buffer.upload(slopes.data(), bytes);
  return buffer;
}

std::int64_t most_heads_of(const std::vector<AttentionProblem>& problems) {
  std::int64_t most = 0;
  for (const AttentionProblem& problem : problems) most = std::max(most, problem.heads_q);
  return most;
}

DeviceBuffer repeated(std::vector<std::uint16_t> block, std::size_t shift, std::size_t count) {
  std::rotate(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(shift), block.end());
  const std::size_t bytes = count * sizeof block[0], block_bytes = block.size() * sizeof block[0];
  DeviceBuffer buffer(bytes);
  for (std::size_t at = 0; at < bytes; at += block_bytes) {
    buffer.upload(block.data(), std::min(block_bytes, bytes - at), at);
  }
  return buffer;
}

Sizes sizes_of(const std::vector<AttentionProblem>& problems, const std::vector<int>& copies = {}) {
  Sizes sizes;
  for (std::size_t i = 0; i < problems.size(); ++i) sizes.fit(problems[i], copies.empty() ? 1 : copies[i]);
  return sizes;
}

/// Returns memory for `count` 16-bit elements.
DeviceBuffer elements(std::size_t count) {
  return DeviceBuffer(count * sizeof(std::uint16_t));
}

}  // namespace

BenchInputs::BenchInputs(const std::vector<AttentionProblem>& problems, const SequenceTables& tables,
                         Direction direction, const std::vector<int>& copies)
    : o_(elements(sizes_of(problems).out << std::ranges::any_of(problems, &AttentionProblem::float32_out))),
      lse_(0),
      max_logits_(sizes_of(problems).max_logits * sizeof(float)),
      dq_(0),
      dk_(0),
      dv_(0),
      of_heads_(slopes_of(most_heads_of(problems))),
      tables_(tables) {
  const Sizes sizes = sizes_of(problems, copies);
  const std::size_t d_out = direction == Direction::backward ? sizes.out : 0;
  if (direction == Direction::backward) {
    lse_ = DeviceBuffer(sizes.lse * sizeof(float));
    dq_ = elements(sizes.q << std::ranges::any_of(problems, &AttentionProblem::float32_dq));
    const bool are_floats = std::ranges::any_of(problems, &AttentionProblem::float32_dk_dv);
    dk_ = elements(sizes.k << are_floats);
    dv_ = elements(sizes.v << are_floats);
  }
  std::set<DType> dtypes;
  std::set<ElementType> key_types;
  for (const AttentionProblem& problem : problems) {
    dtypes.insert(problem.dtype);
    key_types.insert(key_value_format(problem).element);
  }
  for (const DType dtype : dtypes) {
    const std::vector<std::uint16_t> block = normal_values(kBlock, dtype);
    queries_.emplace(dtype, Queries{repeated(block, 0, sizes.q), repeated(block, 3 * kShift, d_out)});
  }
  for (const ElementType type : key_types) {
    const std::vector<std::uint16_t> block = normal_words(kBlock, type);
    const std::size_t in_word = 2 / static_cast<std::size_t>(bytes_of(type));
    keys_.emplace(type, Keys{repeated(block, kShift, sizes.k / in_word),
                             repeated(block, 2 * kShift, sizes.v / in_word)});
  }
}

AttentionArgs BenchInputs::args(const AttentionProblem& problem, int copy) const {
  const ElementType type = key_value_format(problem).element;
  const Keys& in = keys_.at(type);
  const auto copied = [&](const DeviceBuffer& buffer, std::int64_t dim) {
    return static_cast<const std::byte*>(buffer.data()) + copy_stride(problem, dim) *
                                                              static_cast<std::size_t>(copy) *
                                                              static_cast<std::size_t>(bytes_of(type));
  };
  AttentionArgs args =
      bshd_args(problem, queries_.at(problem.dtype).q.data(), copied(in.k, problem.head_dim),
                copied(in.v, problem.head_dim_v), o_.data(), static_cast<float*>(lse_.data()));
  if (problem.max_logits) args.max_logits = static_cast<float*>(max_logits_.data());
  tables_.add_to(args, problem);
  const auto add = [&](const char*, const char*, bool is_used, auto& value, const auto&...) {
    if (!is_used) return;
    if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(value)>>) {
      value = static_cast<const float*>(of_heads_.data());
    } else {
      value = kTrialNumber;
    }
  };
  visit_numbers(add, problem, args);
  if (captures_) captures_->add_to(args);
  if (problem.dropout) args.dropout.probability = kTrialDropout;
  if (problem.query_pieces && !problem.varlen)
    args.query_pieces = trial_pieces(problem, problem.seqlen_q, problem.seqlen_k);
  return args;
}

BackwardArgs BenchInputs::backward_args(const AttentionProblem& problem) const {
  BackwardArgs args = fa2::backward_args(this->args(problem));
  args.d_out = queries_.at(problem.dtype).d_out.data(), args.d_out_strides = args.forward.out_strides;
  args.dq = dq_.data(), args.dq_strides = args.forward.q_strides;
  args.dk = dk_.data(), args.dk_strides = args.forward.k_strides;
  args.dv = dv_.data(), args.dv_strides = args.forward.v_strides;
  return args;
}

}  // namespace fa2::tools
