// Query i sees the existing keys from its diagonal - window_left to its diagonal + window_right.
#include <generator/sequences.h>
#include <generator/visible_keys.h>

#include <algorithm>

namespace fa2 {
namespace {

/// Longer than any sequence.
constexpr std::int64_t kWidest = std::int64_t{1} << 32;

/// Returns the diagonal of query 0. The diagonal of query i lies i keys further.
std::int64_t first_diagonal(const AttentionProblem& p) {
  return p.mask == MaskKind::causal_top_left ? 0 : p.seqlen_k - p.seqlen_q;
}

/// Returns how many keys after the diagonal a query sees; nullopt without a bound.
std::optional<std::int64_t> right_of(const AttentionProblem& p) {
  if (p.mask != MaskKind::none) return 0;
  if (!p.window_right) return std::nullopt;
  return std::min(*p.window_right, kWidest);
}

/// Returns 1 + 2 + ... + n.
double triangle(double n) {
  return n > 0 ? n * (n + 1) / 2 : 0;
}

/// Returns the sum of clamp(i + beyond, 0, seqlen_k) over all queries i.
double keys_before(const AttentionProblem& p, std::int64_t beyond) {
  const auto queries = static_cast<double>(p.seqlen_q), keys = static_cast<double>(p.seqlen_k);
  // Clamping keeps the result and avoids rounding in double.
  const auto before = static_cast<double>(std::clamp(beyond - 1, -p.seqlen_q, p.seqlen_k));
  const double unbounded = triangle(queries + before) - triangle(before);
  return unbounded - (triangle(queries + before - keys) - triangle(before - keys));
}

/// Returns the rows of a sequence of these lengths.
VisibleRows rows_of_sequence(const AttentionProblem& p) {
  const bool top_left = p.mask == MaskKind::causal_top_left;
  VisibleRows rows{0, top_left ? std::min(p.seqlen_k, p.seqlen_q) : p.seqlen_k};
  if (p.window_left && !top_left && p.seqlen_k > 0) {
    rows.first =
        std::clamp<std::int64_t>(first_diagonal(p) - std::min(*p.window_left, kWidest), 0, p.seqlen_k - 1);
    rows.count -= rows.first;
  }
  return rows;
}

}  // namespace

VisibleRows visible_rows(const AttentionProblem& p) {
  return p.varlen ? VisibleRows{0, k_entries(p).rows} : rows_of_sequence(p);
}

std::int64_t visible_keys(const AttentionProblem& p) {
  return rows_of_sequence(with_mean_lengths(p)).count;
}

VisibleRows visible_queries(const AttentionProblem& p, const VisibleRows& of) {
  const std::int64_t diagonal = first_diagonal(p), last = of.first + of.count - 1;
  const auto right = right_of(p);
  const auto existing = [&](std::int64_t query) { return std::clamp<std::int64_t>(query, 0, p.seqlen_q); };
  const std::int64_t begin = right ? existing(of.first - diagonal - *right) : 0;
  const std::int64_t end =
      p.window_left ? existing(last - diagonal + std::min(*p.window_left, kWidest) + 1) : p.seqlen_q;
  return {begin, std::max<std::int64_t>(0, end - begin)};
}

double visible_pairs(const AttentionProblem& problem) {
  const AttentionProblem p = with_mean_lengths(problem);
  const std::int64_t diagonal = first_diagonal(p);
  const auto right = right_of(p);
  const double up_to_end = right ? keys_before(p, diagonal + *right + 1)
                                 : static_cast<double>(p.seqlen_q) * static_cast<double>(p.seqlen_k);
  if (!p.window_left) return up_to_end;
  return up_to_end - keys_before(p, diagonal - std::min(*p.window_left, kWidest));
}

std::optional<std::int64_t> window_width(const AttentionProblem& p) {
  const auto right = right_of(p);
  if (!p.window_left || !right) return std::nullopt;
  return std::min(*p.window_left, kWidest) + *right + 1;
}

std::int64_t table_length(const AttentionProblem& problem, std::int64_t rows) {
  const auto width = window_width(problem);
  return width ? std::min(rows, 2 * *width) : rows;
}

}  // namespace fa2
