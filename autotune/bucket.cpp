// Buckets: the problems that may use one tuning record.
#include <autotune/bucket.h>
#include <autotune/heuristic.h>
#include <fmt/format.h>
#include <generator/head_packing.h>

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

/// page_count sizes the page pool, and sm_margin the grid, not the work.
bool is_room(std::string_view field) {
  return field == "page_count" || field == "sm_margin";
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

/// Returns the tiles of 64 rows in a forward, which are the work that is assigned to SMs, as round(2 log2(tiles)).
int half_octaves_of_tiles(const AttentionProblem& p) {
  constexpr int kTile = 64;
  const HeadPacking packing = head_packing(p, kTile);
  const double of_head = std::ceil(number_of(packed_rows(packing, p.seqlen_q)) / kTile);
  const double tiles = number_of(p.batch) * number_of(p.heads_q) / packing.heads * of_head;
  return static_cast<int>(std::lround(2 * std::log2(std::max(1.0, tiles))));
}

std::int64_t length_of(int exponent) {
  constexpr int kMost = 30;  // a problem's lengths have 31 bits
  return std::int64_t{1} << std::clamp(exponent, 0, kMost);
}

}  // namespace

Bucket bucket_of(const PlannedProblem& problem, KernelPass pass) {
  PlannedProblem p = problem.normalized();
  p.lse_base = LseBase::natural;  // it costs the same
  p.float32_dk_dv = false;        // as does this
  p.float32_dq = false;           // and this
  p.float32_out = false;          // and this
  p.max_logits &= pass == KernelPass::forward;
  const auto heads_q = static_cast<double>(p.heads_q);
  Bucket bucket;
  bucket.pass = pass;
  bucket.traits = to_string(traits_of(p));
  bucket.group_log2 = rounded_log2(heads_q / static_cast<double>(std::max<std::int64_t>(1, p.heads_kv)));
  bucket.heads_log2 = rounded_log2(static_cast<double>(p.batch) * heads_q);
  if (!p.varlen) bucket.tiles_half_octaves = half_octaves_of_tiles(p);
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
  p.heads_q = length_of(bucket.group_log2);
  return p;
}

std::string to_string(const Bucket& bucket) {
  std::string text = bucket.traits;
  if (bucket.pass != KernelPass::forward) text += fmt::format(" {}", word_of(bucket.pass));
  text += fmt::format(" group ~{}", power_of_two(bucket.group_log2));
  text += fmt::format(" batch*heads ~{}", power_of_two(bucket.heads_log2));
  if (bucket.tiles_half_octaves > 0)
    text += fmt::format(" tiles ~{:.0f}", std::exp2(0.5 * bucket.tiles_half_octaves));
  for (const auto& [name, log2] : bucket.sizes) text += fmt::format(" {} ~{}", name, power_of_two(log2));
  return text;
}

std::optional<int> distance(const Bucket& a, const Bucket& b) {
  if (a.pass != b.pass || a.traits != b.traits || a.sizes.size() != b.sizes.size()) return std::nullopt;
  int sum = std::abs(a.group_log2 - b.group_log2) + std::abs(a.heads_log2 - b.heads_log2);
  for (std::size_t i = 0; i < a.sizes.size(); ++i) sum += std::abs(a.sizes[i].log2 - b.sizes[i].log2);
  // Heads and lengths decide the tiles, which would otherwise count twice.
  return sum == 0 && a.tiles_half_octaves != b.tiles_half_octaves ? 1 : sum;
}

}  // namespace fa2
