// Loops over sequences and their rows.
#include <reference/append.h>

#include <algorithm>
#include <cstddef>

namespace fa2::reference {
namespace {

/// The rows of one sequence in the call's tensors.
struct Rows {
  std::int64_t entry = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

Rows rows_of(const std::vector<std::int32_t>& borders, std::int64_t seqlen, std::int64_t total,
             std::size_t sequence) {
  if (borders.empty()) return {static_cast<std::int64_t>(sequence), 0, seqlen};
  const std::int64_t begin = borders[sequence], end = std::min<std::int64_t>(borders[sequence + 1], total);
  return {0, begin, begin < 0 ? 0 : std::max<std::int64_t>(end - begin, 0)};
}

/// Returns the rotary position; -1 if there is none.
std::int64_t position_of(const AppendProblem& p, const AppendTables& tables, std::size_t sequence,
                         std::int64_t number) {
  if (p.rotary_dim == 0) return 0;
  const auto& firsts = tables.rotary_seqlens.empty() ? tables.seqlens : tables.rotary_seqlens;
  const std::int64_t first = firsts[sequence];
  return first < 0 || first + number >= p.table_rows ? -1 : first + number;
}

/// Returns whether the cache has row `number` of a sequence. If so, enters its place in `moved`.
bool find_in_cache(const AppendProblem& p, const AppendTables& tables, std::size_t sequence,
                   std::int64_t number, MovedRow& moved) {
  if (tables.seqlens[sequence] < 0) return false;
  const std::int64_t row = tables.seqlens[sequence] + number;
  moved.cache_row = row;
  moved.cache_entry = static_cast<std::int64_t>(sequence);
  if (p.page_size > 0) {
    const std::int64_t page = row / p.page_size;
    if (page >= p.max_pages) return false;
    moved.cache_row = row - page * p.page_size;
    moved.cache_entry = tables.page_table[sequence][static_cast<std::size_t>(page)];
  } else {
    if (row >= p.cache_rows) return false;
    if (!tables.cache_batch_idx.empty()) moved.cache_entry = tables.cache_batch_idx[sequence];
  }
  return moved.cache_entry >= 0 && moved.cache_entry < p.cache_entries;
}

}  // namespace

std::vector<MovedRow> appended_rows(const AppendProblem& p, const AppendTables& tables) {
  std::vector<MovedRow> all;
  for (std::size_t b = 0; b < static_cast<std::size_t>(p.batch); ++b) {
    const Rows rows = rows_of(tables.cu_seqlens_new, p.seqlen_new, p.total_new, b);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      MovedRow moved{.sequence = static_cast<std::int64_t>(b),
                     .entry = rows.entry,
                     .row = rows.first + i,
                     .position = position_of(p, tables, b, i)};
      if (find_in_cache(p, tables, b, i, moved) && moved.position >= 0) all.push_back(moved);
    }
  }
  return all;
}

std::vector<MovedRow> turned_queries(const AppendProblem& p, const AppendTables& tables) {
  std::vector<MovedRow> all;
  if (p.heads_q == 0) return all;
  for (std::size_t b = 0; b < static_cast<std::size_t>(p.batch); ++b) {
    const Rows rows = rows_of(tables.cu_seqlens_q, p.seqlen_q, p.total_q, b);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const std::int64_t position = position_of(p, tables, b, p.causal_positions ? i : 0);
      if (position >= 0)
        all.push_back({.sequence = static_cast<std::int64_t>(b),
                       .entry = rows.entry,
                       .row = rows.first + i,
                       .position = position});
    }
  }
  return all;
}

std::vector<double> turned(const AppendProblem& p, std::vector<double> row, const float* cos,
                           const float* sin) {
  const std::size_t half = static_cast<std::size_t>(p.rotary_dim) / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const bool is_interleaved = p.rotary_style == RotaryStyle::interleaved;
    double& x = row[is_interleaved ? 2 * i : i];
    double& y = row[is_interleaved ? 2 * i + 1 : i + half];
    const double before = x;
    x = before * cos[i] - y * sin[i];
    y = before * sin[i] + y * cos[i];
  }
  return row;
}

}  // namespace fa2::reference
