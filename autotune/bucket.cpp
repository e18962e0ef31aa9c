// Buckets: the problems that may use one tuning record.
#include <autotune/bucket.h>
#include <autotune/heuristic.h>
#include <fmt/format.h>
#include <generator/packed_heads.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace fa2 {
namespace {

int rounded_log2(double value) {
  return static_cast<int>(std::lround(std::log2(std::max(1.0, value))));
}

std::uint64_t power_of_two(int exponent) {
  return std::uint64_t{1} << std::clamp(exponent, 0, 63);
}

/// Returns whether the field is part of group and heads.
bool is_batch_or_heads(std::string_view field) {
  return field == "batch" || field == "heads_q" || field == "heads_kv";
}

template <class Value>
double number_of(const Value& value) {
  return static_cast<double>(value);
}
template <class Value>
double number_of(const std::optional<Value>& value) {
  return value ? number_of(*value) : 0;
}

template <class Value>
bool is_given(const Value&) {
  return true;
}
template <class Value>
bool is_given(const std::optional<Value>& value) {
  return value.has_value();
}

template <class Value>
void set(Value& field, std::int64_t size) {
  field = static_cast<Value>(size);
}
template <class Value>
void set(std::optional<Value>& field, std::int64_t size) {
  if (field) set(*field, size);
}

/// page_count sizes the page pool, not the work.
bool is_room(std::string_view field) {
  return field == "page_count";
}

/// Only packed sequences have sums of lengths.
bool is_total(std::string_view field) {
  return field == "total_q" || field == "total_k";
}

/// Calls size(name, value) for each member of Bucket::sizes that the problem has.
template <class Problem, class Size>
void visit_sizes(Problem& problem, const Size& size) {
  AttentionProblem::visit(
      [&](const char* name, FieldRole role, auto& value) {
        if (role != FieldRole::sizes || is_batch_or_heads(name) || is_room(name) ||
            (is_total(name) && !problem.varlen))
          return;
        if (is_given(value)) size(name, value);
      },
      problem);
}

int packed_heads_of(const AttentionProblem& p, KernelPass pass) {
  return pass == KernelPass::forward ? packed_heads(p, kMostPackedRows) : 1;
}

/// Returns heads times tiles per head, of 64 packed rows: the work that is assigned to SMs.
int half_octaves_of_tiles(double heads, double queries, int packed) {
  constexpr double kRows = 64;
  const double tiles = heads / packed * std::ceil(queries * packed / kRows);
  return static_cast<int>(std::lround(2 * std::log2(std::max(1.0, tiles))));
}

std::int64_t length_of(int exponent) {
  constexpr int kMost = 30;  // a problem's lengths have 31 bits
  return std::int64_t{1} << std::clamp(exponent, 0, kMost);
}

/// Sets a group of the bucket's size, and if necessary the bucket's shortest queries, so that tiles pack the bucket's heads.
/// Rounded sizes may pack others: a group of 7 packs 1 head, and 46 queries pack more than the 64 to which they are rounded.
void set_group(PlannedProblem& p, const Bucket& bucket) {
  const std::int64_t group = length_of(bucket.group_log2), queries = p.seqlen_q;
  const auto shortest = static_cast<std::int64_t>(std::ceil(std::exp2(std::log2(queries) - 0.5)));
  for (const std::int64_t length : {queries, shortest}) {
    for (const std::int64_t heads : {group, group - bucket.packed_heads}) {
      p.seqlen_q = length, p.heads_q = heads;
      if (rounded_log2(number_of(heads)) == bucket.group_log2 &&
          packed_heads_of(p, bucket.pass) == bucket.packed_heads)
        return;
    }
  }
  p.seqlen_q = queries, p.heads_q = group;
}

}  // namespace

Bucket bucket_of(const PlannedProblem& problem, KernelPass pass) {
  const PlannedProblem p = problem.normalized();
  const auto heads_q = static_cast<double>(p.heads_q);
  Bucket bucket;
  bucket.pass = pass;
  bucket.traits = to_string(traits_of(p));
  bucket.group_log2 = rounded_log2(heads_q / static_cast<double>(std::max<std::int64_t>(1, p.heads_kv)));
  bucket.packed_heads = packed_heads_of(p, pass);
  bucket.heads_log2 = rounded_log2(static_cast<double>(p.batch) * heads_q);
  if (!p.varlen)
    bucket.tiles_half_octaves = half_octaves_of_tiles(static_cast<double>(p.batch) * heads_q,
                                                      static_cast<double>(p.seqlen_q), bucket.packed_heads);
  visit_sizes(p, [&](const char* name, const auto& value) {
    bucket.sizes.push_back({name, rounded_log2(number_of(value))});
  });
  return bucket;
}

PlannedProblem problem_of(const Bucket& bucket, const PlannedProblem& traits) {
  PlannedProblem p = traits.normalized();
  p.heads_kv = 1;
  p.batch = length_of(bucket.heads_log2 - bucket.group_log2);
  auto next = bucket.sizes.begin();
  visit_sizes(p, [&](const char* name, auto& value) {
    const int log2 = (next++)->log2;
    set(value, log2 == 0 && is_total(name) ? 0 : length_of(log2));  // 0: batched
  });
  set_group(p, bucket);
  return p;
}

std::vector<PlannedProblem> packings_of(const Bucket& bucket, const PlannedProblem& traits) {
  PlannedProblem p = problem_of(bucket, traits);
  std::vector<PlannedProblem> problems = {p};
  if (bucket.packed_heads == 1) return problems;
  // A group of exactly these heads packs like any group that packs them in the largest tile: fewer in a smaller tile.
  p.heads_q = bucket.packed_heads;
  for (p.seqlen_q = 1; p.seqlen_q < kMostPackedRows; ++p.seqlen_q) {
    if (packed_heads_of(p, bucket.pass) == bucket.packed_heads) problems.push_back(p);
  }
  return problems;
}

std::string to_string(const Bucket& bucket) {
  std::string text = bucket.traits;
  if (bucket.pass != KernelPass::forward) text += fmt::format(" {}", word_of(bucket.pass));
  text += fmt::format(" group ~{}", power_of_two(bucket.group_log2));
  if (bucket.packed_heads > 1) text += fmt::format(" packed_heads {}", bucket.packed_heads);
  text += fmt::format(" batch*heads ~{}", power_of_two(bucket.heads_log2));
  if (bucket.tiles_half_octaves > 0)
    text += fmt::format(" tiles ~{:.0f}", std::exp2(0.5 * bucket.tiles_half_octaves));
  for (const auto& [name, log2] : bucket.sizes) text += fmt::format(" {} ~{}", name, power_of_two(log2));
  return text;
}

std::optional<int> distance(const Bucket& a, const Bucket& b) {
  if (a.pass != b.pass || a.traits != b.traits || a.packed_heads != b.packed_heads ||
      a.sizes.size() != b.sizes.size())
    return std::nullopt;
  int sum = std::abs(a.group_log2 - b.group_log2) + std::abs(a.heads_log2 - b.heads_log2);
  for (std::size_t i = 0; i < a.sizes.size(); ++i) sum += std::abs(a.sizes[i].log2 - b.sizes[i].log2);
  // Heads and lengths decide the tiles, which would otherwise count twice.
  return sum == 0 && a.tiles_half_octaves != b.tiles_half_octaves ? 1 : sum;
}

}  // namespace fa2
