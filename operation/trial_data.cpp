// Shapes, inputs and comparisons of a search; host only.
#include <fmt/format.h>
#include <generator/float_bits.h>
#include <generator/visible_keys.h>
#include <operation/trial_data.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace fa2 {
namespace {

double bytes_of(const AttentionProblem& p) {
  const double dims = p.head_dim + p.head_dim_v, element = static_cast<double>(size_of(p.dtype));
  const double query_rows = double(p.heads_q) * double(p.seqlen_q),
               key_rows = double(p.heads_kv) * double(p.seqlen_k);
  return double(p.batch) * (query_rows + key_rows) * dims * element;
}

double flops_of(const AttentionProblem& p) {
  return 2.0 * double(p.batch) * double(p.heads_q) * (p.head_dim + p.head_dim_v) * visible_pairs(p);
}

std::int64_t blocks_of(const AttentionProblem& p) {
  return p.batch * p.heads_q * ((p.seqlen_q + 127) / 128);
}

bool halve_batch_or_heads(AttentionProblem& p) {
  if (p.batch > 1) {
    p.batch = (p.batch + 1) / 2;
  } else if (p.heads_kv > 1) {
    const std::int64_t group = p.heads_q / p.heads_kv;
    p.heads_kv = (p.heads_kv + 1) / 2;
    p.heads_q = p.heads_kv * group;
  } else {
    return false;
  }
  return true;
}

bool halve_lengths(AttentionProblem& p, std::int64_t shortest) {
  if (std::max(p.seqlen_q, p.seqlen_k) <= shortest) return false;
  p.seqlen_q = (p.seqlen_q + 1) / 2;
  p.seqlen_k = (p.seqlen_k + 1) / 2;
  return true;
}

}  // namespace

AttentionProblem within(const TrialLimits& limits, AttentionProblem p) {
  constexpr std::int64_t kRepresentativeLength = 2048;
  while (bytes_of(p) > limits.bytes || flops_of(p) > limits.flops) {
    AttentionProblem fewer = p;
    if (halve_batch_or_heads(fewer) && blocks_of(fewer) >= limits.min_blocks) {
      p = fewer;
    } else if (!halve_lengths(p, kRepresentativeLength) && !halve_batch_or_heads(p) && !halve_lengths(p, 1)) {
      break;
    }
  }
  return p;
}

std::vector<std::uint16_t> normal_values(std::size_t count, DType dtype) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) value = to_bits(normal(random), dtype);
  return values;
}

std::optional<std::string> difference(const std::vector<std::uint16_t>& expected,
                                      const std::vector<std::uint16_t>& actual, std::int64_t dim,
                                      DType dtype) {
  const float tolerance = 4 * (dtype == DType::f16 ? 0x1p-10f : 0x1p-7f);
  const std::size_t row_size = static_cast<std::size_t>(dim);
  for (std::size_t begin = 0; begin < expected.size(); begin += row_size) {
    float largest = 0;
    for (std::size_t i = begin; i < begin + row_size; ++i) {
      largest = std::max(largest, std::fabs(from_bits(expected[i], dtype)));
    }
    for (std::size_t i = begin; i < begin + row_size; ++i) {
      const float a = from_bits(expected[i], dtype), b = from_bits(actual[i], dtype);
      if (std::isfinite(a) && std::fabs(a - b) <= tolerance * largest) continue;  // false for NaN
      return fmt::format("element {} of row {} is {}, not {}", i - begin, begin / row_size, b, a);
    }
  }
  return std::nullopt;
}

}  // namespace fa2
