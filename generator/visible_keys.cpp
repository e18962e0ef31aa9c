// Query i sees the existing keys from its diagonal - window_left to its diagonal + window_right, in its diagonal's chunk.
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

/// Returns where the chunk of a position begins, which must not be negative; 0 without chunks.
std::int64_t begin_of_chunk(const AttentionProblem& p, std::int64_t position) {
  return p.attention_chunk ? position - position % *p.attention_chunk : 0;
}

/// Returns 1 + 2 + ... + n.
double triangle(double n) {
  return n > 0 ? n * (n + 1) / 2 : 0;
}

/// Queries of which each may see each key.
struct Rectangle {
  std::int64_t queries, keys;
  std::int64_t diagonal;  ///< of query 0, counted from key 0
};

/// Returns the sum of clamp(i + beyond, 0, keys) over all queries i.
double keys_before(const Rectangle& of, std::int64_t beyond) {
  const auto queries = static_cast<double>(of.queries), keys = static_cast<double>(of.keys);
  // Clamping keeps the result and avoids rounding in double.
  const auto before = static_cast<double>(std::clamp(beyond - 1, -of.queries, of.keys));
  const double unbounded = triangle(queries + before) - triangle(before);
  return unbounded - (triangle(queries + before - keys) - triangle(before - keys));
}

/// Returns the pairs that the problem's mask and windows leave.
double pairs_in(const Rectangle& of, const AttentionProblem& p) {
  const auto right = right_of(p);
  const double up_to_end = right ? keys_before(of, of.diagonal + *right + 1)
                                 : static_cast<double>(of.queries) * static_cast<double>(of.keys);
  if (!p.window_left) return up_to_end;
  return up_to_end - keys_before(of, of.diagonal - std::min(*p.window_left, kWidest));
}

/// Returns the visible pairs of a problem with chunks. Each chunk is a rectangle of its own, and all but the first and the last have
/// equally many pairs.
double pairs_in_chunks(const AttentionProblem& p) {
  const std::int64_t length = std::min(*p.attention_chunk, kWidest), first = first_diagonal(p);
  const std::int64_t begin = std::max<std::int64_t>(0, first),
                     end = std::min(first + p.seqlen_q, (p.seqlen_k + length - 1) / length * length);
  if (begin >= end) return 0;
  // The pairs of the queries whose diagonals lie in [from, to), within one chunk.
  const auto pairs = [&](std::int64_t from, std::int64_t to) {
    const std::int64_t chunk = from - from % length;
    return pairs_in({to - from, std::min(length, p.seqlen_k - chunk), from - chunk}, p);
  };
  const std::int64_t first_end = (begin / length + 1) * length, last_begin = (end - 1) / length * length;
  if (last_begin < first_end) return pairs(begin, end);
  const std::int64_t between = (last_begin - first_end) / length;
  return pairs(begin, first_end) + static_cast<double>(between) * pairs(first_end, first_end + length) +
         pairs(last_begin, end);
}

/// Returns the rows of a sequence of these lengths.
VisibleRows rows_of_sequence(const AttentionProblem& p) {
  const bool top_left = p.mask == MaskKind::causal_top_left;
  VisibleRows rows{0, top_left ? std::min(p.seqlen_k, p.seqlen_q) : p.seqlen_k};
  if (top_left || p.seqlen_k == 0) return rows;
  const std::int64_t diagonal = first_diagonal(p), left = std::min(p.window_left.value_or(kWidest), kWidest),
                     chunk = begin_of_chunk(p, std::max<std::int64_t>(diagonal, 0));
  rows.first = std::min(std::max(diagonal - left, chunk), p.seqlen_k - 1);
  rows.count -= rows.first;
  return rows;
}

}  // namespace

VisibleRows visible_rows(const AttentionProblem& p) {
  return p.varlen ? VisibleRows{0, k_entries(p).rows} : rows_of_sequence(p);
}

VisibleRows visible_rows(const AttentionProblem& p, const QueryPieces& pieces) {
  if (!p.query_pieces || p.varlen || p.seqlen_q == 0 || p.seqlen_k == 0) return visible_rows(p);
  const auto position = [&](std::int64_t query) {
    return query + (query < pieces.split ? pieces.first : pieces.second);
  };
  const std::int64_t first = position(0), last = position(p.seqlen_q - 1);
  const auto right = right_of(p);
  std::int64_t begin = p.window_left ? std::max<std::int64_t>(first - *p.window_left, 0) : 0,
               end = right ? std::min(last + *right + 1, p.seqlen_k) : p.seqlen_k;
  if (p.attention_chunk) {
    begin = std::max(begin, begin_of_chunk(p, std::max<std::int64_t>(first, 0)));
    end = last < 0 ? 0 : std::min(end, begin_of_chunk(p, last) + *p.attention_chunk);
  }
  begin = std::min(begin, p.seqlen_k - 1);  // tensor maps show at least one row
  return {begin, std::max<std::int64_t>(end - begin, 1)};
}

std::int64_t visible_keys(const AttentionProblem& p) {
  return rows_of_sequence(with_mean_lengths(p)).count;
}

VisibleRows visible_queries(const AttentionProblem& p, const VisibleRows& of) {
  const std::int64_t diagonal = first_diagonal(p), last = of.first + of.count - 1;
  const auto right = right_of(p);
  const auto existing = [&](std::int64_t query) { return std::clamp<std::int64_t>(query, 0, p.seqlen_q); };
  std::int64_t begin = right ? existing(of.first - diagonal - *right) : 0;
  std::int64_t end =
      p.window_left ? existing(last - diagonal + std::min(*p.window_left, kWidest) + 1) : p.seqlen_q;
  if (p.attention_chunk) {
    begin = std::max(begin, existing(begin_of_chunk(p, of.first) - diagonal));
    end = std::min(end, existing(begin_of_chunk(p, last) + std::min(*p.attention_chunk, kWidest) - diagonal));
  }
  return {begin, std::max<std::int64_t>(0, end - begin)};
}

double visible_pairs(const AttentionProblem& problem) {
  AttentionProblem p = with_mean_lengths(problem);
  if (p.query_pieces && p.seqlen_q < p.seqlen_k) {
    const double share = static_cast<double>(p.seqlen_q) / static_cast<double>(p.seqlen_k);
    p.seqlen_q = p.seqlen_k;
    return share * visible_pairs(p);  // of the whole sequence
  }
  return p.attention_chunk ? pairs_in_chunks(p) : pairs_in({p.seqlen_q, p.seqlen_k, first_diagonal(p)}, p);
}

std::optional<std::int64_t> window_width(const AttentionProblem& p) {
  const auto right = right_of(p);
  std::optional<std::int64_t> width = p.attention_chunk;
  if (p.window_left && right)
    width = std::min(width.value_or(kWidest), std::min(*p.window_left, kWidest) + *right + 1);
  return width;
}

std::optional<double> mean_width(const AttentionProblem& p) {
  const auto width = window_width(p);
  if (!width || !p.attention_chunk) return width;
  const std::int64_t length = std::min(*p.attention_chunk, kWidest);
  return pairs_in({length, length, 0}, p) / static_cast<double>(length);
}

std::int64_t table_length(const AttentionProblem& problem, std::int64_t rows) {
  const auto width = mean_width(problem);
  return width ? std::min(rows, static_cast<std::int64_t>(2 * *width)) : rows;
}

}  // namespace fa2
