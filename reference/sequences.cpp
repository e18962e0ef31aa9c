// Clamps the tables to the tensors, like templates/attention/common/sequence.cuh.
#include <reference/sequences.h>

#include <algorithm>

namespace fa2::reference {
namespace {

/// One side of a problem: Q, or K and V.
struct Side {
  const std::int32_t* cu_seqlens;  ///< null: batched
  const std::int32_t* seqused;     ///< null: whole sequences
  std::int64_t total;              ///< rows that all sequences share; 0: batched
  std::int64_t longest;
};

SequenceRows find(const Side& side, std::int64_t b) {
  SequenceRows rows{.entry = b, .begin = 0, .count = side.longest};
  if (side.cu_seqlens != nullptr) {
    rows.entry = 0;
    rows.begin = std::clamp<std::int64_t>(side.cu_seqlens[b], 0, side.total);
    const std::int64_t end = std::clamp<std::int64_t>(side.cu_seqlens[b + 1], rows.begin, side.total);
    rows.count = std::min(end - rows.begin, side.longest);
  }
  if (side.seqused != nullptr) rows.count = std::clamp<std::int64_t>(side.seqused[b], 0, rows.count);
  return rows;
}

/// Returns a sequence's first row for head h, counted over all entries and heads.
std::int64_t first_row(const Tensor& t, const SequenceRows& rows, std::int64_t h) {
  return (rows.entry * t.heads + h) * t.rows + rows.begin;
}

/// Returns the pages of a sequence.
const std::int32_t* pages_of(const AttentionArgs& tables, std::int64_t b) {
  return tables.page_table + b * tables.page_table_stride;
}

/// Returns whether an entry of the page table names no page.
bool is_missing(const AttentionProblem& p, std::int32_t page) {
  return page < 0 || page >= p.page_count;
}

}  // namespace

std::vector<Sequence> sequences_of(const AttentionProblem& p, const AttentionArgs& tables) {
  Side q{nullptr, nullptr, p.total_q, p.seqlen_q}, k{nullptr, nullptr, p.total_k, p.seqlen_k};
  if (p.varlen) {
    if (p.total_q > 0) q.cu_seqlens = tables.cu_seqlens_q;
    if (p.total_k > 0) k.cu_seqlens = tables.cu_seqlens_k;
    q.seqused = tables.seqused_q;
    k.seqused = tables.seqused_k;
  }
  std::vector<Sequence> sequences;
  for (std::int64_t b = 0; b < p.batch; ++b) sequences.push_back({find(q, b), find(k, b)});
  return sequences;
}

AttentionProblem problem_of(const AttentionProblem& problem, const Sequence& sequence) {
  AttentionProblem alone = problem;
  alone.varlen = false;
  alone.page_size = 0;
  alone.page_count = 0;
  alone.missing_pages = false;
  alone.batch = 1;
  alone.total_q = alone.total_k = 0;
  alone.seqlen_q = sequence.q.count;
  alone.seqlen_k = sequence.k.count;
  return alone;
}

ScoreRule rule_of(const AttentionProblem& p, const Sequence& sequence, const ScoreRule& rule,
                  std::int64_t b) {
  ScoreRule alone = rule;
  if (p.alibi && rule.numbers.alibi_slopes_per_batch) alone.numbers.alibi_slopes += b * p.heads_q;
  alone.numbers.alibi_slopes_per_batch = false;
  if (alone.numbers.k_descale != nullptr)
    alone.numbers.k_descale += b * alone.numbers.k_descale_strides.batch;
  if (alone.numbers.v_descale != nullptr)
    alone.numbers.v_descale += b * alone.numbers.v_descale_strides.batch;
  alone.first_batch = b;
  if (p.query_pieces && rule.numbers.query_pieces.table != nullptr) {
    const std::int32_t* const row = rule.numbers.query_pieces.table + 3 * b;
    alone.numbers.query_pieces = {row[0], row[1], row[2]};
  }
  if (!p.missing_pages) return alone;
  const std::int32_t* const table = pages_of(rule.numbers, b);
  for (std::int64_t j = 0; j < sequence.k.count; ++j)
    alone.missing_keys.push_back(is_missing(p, table[j / p.page_size]));
  return alone;
}

Tensor rows_of(const Tensor& tensor, const SequenceRows& rows) {
  Tensor part{1, tensor.heads, rows.count, tensor.dim, {}};
  for (std::int64_t h = 0; h < tensor.heads; ++h) {
    const auto first = tensor.values.begin() + first_row(tensor, rows, h) * tensor.dim;
    part.values.insert(part.values.end(), first, first + rows.count * tensor.dim);
  }
  return part;
}

Tensor keys_of(const AttentionProblem& p, const Tensor& tensor, const Sequence& sequence, std::int64_t b,
               const AttentionArgs& tables) {
  if (p.page_size == 0) return rows_of(tensor, sequence.k);
  const std::int32_t* const table = pages_of(tables, b);
  Tensor keys{1, tensor.heads, sequence.k.count, tensor.dim, {}};
  for (std::int64_t h = 0; h < tensor.heads; ++h) {
    for (std::int64_t j = 0; j < sequence.k.count; ++j) {
      if (p.missing_pages && is_missing(p, table[j / p.page_size])) {
        keys.values.insert(keys.values.end(), static_cast<std::size_t>(tensor.dim), 0.0f);
        continue;
      }
      const std::int64_t page = std::clamp<std::int64_t>(table[j / p.page_size], 0, p.page_count - 1);
      const std::int64_t row = first_row(tensor, {page, j % p.page_size, 1}, h);
      const auto first = tensor.values.begin() + row * tensor.dim;
      keys.values.insert(keys.values.end(), first, first + tensor.dim);
    }
  }
  return keys;
}

std::vector<double> rows_of(const std::vector<double>& numbers, const Tensor& like,
                            const SequenceRows& rows) {
  std::vector<double> part;
  for (std::int64_t h = 0; h < like.heads; ++h) {
    const auto first = numbers.begin() + first_row(like, rows, h);
    part.insert(part.end(), first, first + rows.count);
  }
  return part;
}

void put_rows(const Tensor& part, const SequenceRows& rows, Tensor& tensor) {
  const std::int64_t size = rows.count * tensor.dim;
  for (std::int64_t h = 0; h < tensor.heads; ++h) {
    std::copy_n(part.values.begin() + h * size, size,
                tensor.values.begin() + first_row(tensor, rows, h) * tensor.dim);
  }
}

void put_rows(const std::vector<double>& part, const SequenceRows& rows, const Tensor& like,
              std::vector<double>& numbers) {
  for (std::int64_t h = 0; h < like.heads; ++h)
    std::copy_n(part.begin() + h * rows.count, rows.count, numbers.begin() + first_row(like, rows, h));
}

}  // namespace fa2::reference
