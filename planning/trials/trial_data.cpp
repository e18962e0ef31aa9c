// Shapes, inputs and comparisons of a search, on the host alone.
#include <core/float_bits.h>
#include <fmt/format.h>
#include <generator/key_value_format.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>
#include <planning/trials/trial_data.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace fa2 {
namespace {

double rows_of(const Entries& entries) {
  return double(entries.count) * double(entries.rows);
}

double bytes_of(const AttentionProblem& p) {
  const double query = double(size_of(p.dtype)) * (p.head_dim + p.head_dim_v),
               key = double(key_value_format(p).bytes_per_key());
  return double(p.heads_q) * rows_of(q_entries(p)) * query + double(p.heads_kv) * rows_of(k_entries(p)) * key;
}

double flops_of(const AttentionProblem& p) {
  return 2.0 * double(p.heads_q) * (p.head_dim + p.head_dim_v) * pairs_of_mix(p);
}

std::int64_t blocks_of(const AttentionProblem& p) {
  return p.batch * p.heads_q * ((with_mean_lengths(p).seqlen_q + 127) / 128);
}

/// Sets the total rows of packed sequences, and limits the longest to them. Does nothing to a batched side.
void set_total(std::int64_t& total, std::int64_t& longest, std::int64_t rows) {
  if (total == 0) return;
  total = rows;
  longest = std::min(longest, total);
}

/// Limits the pages to at most those that sequences can use.
void set_page_count(AttentionProblem& p) {
  if (p.page_size > 0)
    p.page_count = std::clamp<std::int64_t>(p.batch * pages_of_sequence(p), 1, p.page_count);
}

bool halve_batch_or_heads(AttentionProblem& p) {
  if (p.batch > 1) {
    const std::int64_t before = std::exchange(p.batch, (p.batch + 1) / 2);
    const auto share = [&](std::int64_t total) { return (total * p.batch + before - 1) / before; };
    set_total(p.total_q, p.seqlen_q, share(p.total_q));
    set_total(p.total_k, p.seqlen_k, share(p.total_k));
  } else if (p.heads_kv > 1) {
    const std::int64_t group = p.heads_q / p.heads_kv;
    p.heads_kv = (p.heads_kv + 1) / 2;
    p.heads_q = p.heads_kv * group;
  } else {
    return false;
  }
  set_page_count(p);
  return true;
}

bool halve_lengths(AttentionProblem& p, std::int64_t shortest) {
  if (std::max(p.seqlen_q, p.seqlen_k) <= shortest) return false;
  p.seqlen_q = (p.seqlen_q + 1) / 2;
  p.seqlen_k = (p.seqlen_k + 1) / 2;
  set_total(p.total_q, p.seqlen_q, (p.total_q + 1) / 2);
  set_total(p.total_k, p.seqlen_k, (p.total_k + 1) / 2);
  set_page_count(p);
  return true;
}

/// Returns `count` lengths that add up to `total`, proportional to log-normal weights but at most `longest`. They must fit.
std::vector<std::int64_t> spread(std::size_t count, std::int64_t total, std::int64_t longest) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> weights(count);
  for (double& weight : weights) weight = std::exp(normal(random));
  std::vector<std::int64_t> lengths(count);
  const auto sum_at = [&](double scale) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      lengths[i] = static_cast<std::int64_t>(std::min(weights[i] * scale, static_cast<double>(longest)));
      sum += lengths[i];
    }
    return sum;
  };
  double low = 0, high = 1;
  while (sum_at(high) < total) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (sum_at(middle) > total ? high : low) = middle;
  }
  std::int64_t left = total - sum_at(low);  // rounding left them
  for (std::size_t i = 0; left > 0; i = (i + 1) % count) {
    if (lengths[i] == longest) continue;
    ++lengths[i];
    --left;
  }
  return lengths;
}

}  // namespace

AttentionProblem within(const TrialLimits& limits, AttentionProblem p) {
  constexpr std::int64_t kRepresentativeLength = 2048;
  // No kernel writes rows that belong to no sequence, and the comparison of outputs would find them.
  p.total_q = std::min(p.total_q, p.batch * p.seqlen_q);
  p.total_k = std::min(p.total_k, p.batch * p.seqlen_k);
  set_page_count(p);
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

std::vector<std::int64_t> mix_of(std::int64_t batch, std::int64_t total, std::int64_t longest) {
  const auto count = static_cast<std::size_t>(batch);
  if (total == 0 || total >= batch * longest) return std::vector<std::int64_t>(count, longest);
  if (total < longest) return spread(count, total, total);
  std::vector<std::int64_t> lengths = spread(count - 1, total - longest, longest);
  lengths.insert(lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2), longest);
  return lengths;
}

QueryPieces trial_pieces(const AttentionProblem& p, std::int64_t queries, std::int64_t keys) {
  const std::int64_t unit = p.dropout ? 16 : 1, second = (keys - queries) / unit * unit;
  return {.split = queries / 2 / unit * unit, .first = std::min<std::int64_t>(second, 0), .second = second};
}

std::vector<std::int32_t> trial_piece_table(const AttentionProblem& p) {
  const auto queries = mix_of(p.batch, p.total_q, p.seqlen_q), keys = mix_of(p.batch, p.total_k, p.seqlen_k);
  std::vector<std::int32_t> table;
  for (std::size_t b = 0; b < queries.size(); ++b) {
    const QueryPieces of = trial_pieces(p, queries[b], keys[b]);
    for (const std::int64_t number : {of.split, of.first, of.second})
      table.push_back(static_cast<std::int32_t>(number));
  }
  return table;
}

std::vector<std::int32_t> borders_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int32_t> borders = {0};
  for (const std::int64_t length : lengths)
    borders.push_back(borders.back() + static_cast<std::int32_t>(length));
  return borders;
}

double pairs_of_mix(const AttentionProblem& problem) {
  if (!problem.varlen) return double(problem.batch) * visible_pairs(problem);
  const auto queries = mix_of(problem.batch, problem.total_q, problem.seqlen_q);
  const auto keys = mix_of(problem.batch, problem.total_k, problem.seqlen_k);
  AttentionProblem sequence = problem;
  sequence.total_q = sequence.total_k = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    sequence.seqlen_q = queries[i];
    sequence.seqlen_k = keys[i];
    pairs += visible_pairs(sequence);
  }
  return pairs;
}

std::vector<std::uint16_t> normal_values(std::size_t count, DType dtype, float deviation) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) value = to_bits(normal(random), dtype);
  return values;
}

std::vector<std::uint16_t> normal_words(std::size_t count, ElementType type) {
  if (type != ElementType::e4m3)
    return normal_values(count, type == ElementType::f16 ? DType::f16 : DType::bf16);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> words(count);
  for (std::uint16_t& word : words) {
    const std::uint8_t low = to_e4m3(normal(random)), high = to_e4m3(normal(random));
    word = static_cast<std::uint16_t>(low | high << 8);
  }
  return words;
}

std::vector<std::uint16_t> latent_words(std::size_t count) {
  constexpr std::size_t kWords = LatentRow::words, kCodes = LatentRow::factors,
                        kRotated = LatentRow::rotated_cols;
  constexpr std::uint16_t kOne = 0x3f80;  // the upper half of 1.0f
  const std::vector<std::uint16_t> codes = normal_words(count, ElementType::e4m3),
                                   rotated = normal_words(count, ElementType::bf16);
  std::vector<std::uint16_t> words(count / kWords * kWords);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t at = i % kWords;
    words[i] = at < kCodes               ? codes[i]
               : at >= kWords - kRotated ? rotated[i]
                                         : static_cast<std::uint16_t>(at % 2 == 0 ? 0 : kOne);
  }
  return words;
}

std::optional<std::string> difference(const std::vector<std::uint16_t>& expected,
                                      const std::vector<std::uint16_t>& actual, std::int64_t dim, DType dtype,
                                      bool may_overflow) {
  const float tolerance = 4 * (dtype == DType::f16 ? 0x1p-10f : 0x1p-7f);
  const std::size_t row_size = static_cast<std::size_t>(dim);
  for (std::size_t begin = 0; begin < expected.size(); begin += row_size) {
    float largest = 0;
    for (std::size_t i = begin; i < begin + row_size; ++i) {
      const float a = std::fabs(from_bits(expected[i], dtype));
      if (std::isfinite(a)) largest = std::max(largest, a);
    }
    for (std::size_t i = begin; i < begin + row_size; ++i) {
      const float a = from_bits(expected[i], dtype), b = from_bits(actual[i], dtype);
      if (std::isfinite(a) && std::fabs(a - b) <= tolerance * largest) continue;  // false for NaN
      if (may_overflow && !std::isfinite(a) && actual[i] != kUnwritten) continue;
      return fmt::format("element {} of row {} is {}, not {}", i - begin, begin / row_size, b, a);
    }
  }
  return std::nullopt;
}

}  // namespace fa2
