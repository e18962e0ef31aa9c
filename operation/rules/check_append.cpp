// Checks lengths, positions and pages.
#include <fmt/format.h>
#include <operation/rules/check_append.h>
#include <operation/rules/check_sequences.h>
#include <operation/rules/table_checks.h>
#include <planning/append.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

using Table = std::vector<std::int32_t>;

/// Returns the rows of sequence `b` as the kernel computes them, even from wrong offsets.
std::int64_t rows_of(const Table& borders, std::int64_t seqlen, std::int64_t total, std::size_t b) {
  if (borders.empty()) return seqlen;
  if (borders[b] < 0) return 0;
  return std::max<std::int64_t>(std::min<std::int64_t>(borders[b + 1], total) - borders[b], 0);
}

/// Returns how many consecutive positions sequence `b` needs.
std::int64_t positions_of(const AppendProblem& p, const AppendTables& tables, std::size_t b) {
  if (p.rotary_dim == 0) return 0;
  const std::int64_t keys = rows_of(tables.cu_seqlens_new, p.seqlen_new, p.total_new, b);
  if (p.heads_q == 0) return keys;
  const std::int64_t queries = rows_of(tables.cu_seqlens_q, p.seqlen_q, p.total_q, b);
  return std::max(keys, p.causal_positions ? queries : std::min<std::int64_t>(queries, 1));
}

/// Returns an empty text if the rows [first, first + count) exist, else the broken rule.
std::string range_rule(std::int64_t first, std::int64_t count, std::int64_t rows, const char* why) {
  if (first < 0) return "must be at least 0";
  if (count == 0 || first + count <= rows) return "";
  return fmt::format("must be at most {}: {}", rows - count,
                     fmt::format(fmt::runtime(why), fmt::arg("count", count), fmt::arg("rows", rows)));
}

constexpr const char* kCacheEnds = "{count} rows are new, and the cache has {rows} of a sequence";
constexpr const char* kAnglesEnd = "{count} positions are needed, and cos and sin have {rows}";

std::string index_rule(std::int32_t index, std::int64_t count, const char* of) {
  if (index >= 0 && index < count) return "";
  return fmt::format("must be in 0..{}, {}", count - 1, of);
}

void check_borders(Violations& found, const char* name, const Table& borders, std::int64_t total) {
  const SequenceSide side{.name = name, .total = total, .longest = total, .cu_seqlens = borders};
  std::ranges::move(violations_of(side), std::back_inserter(found));
}

/// Checks the pages that the call writes to.
void check_pages(Violations& found, const AppendProblem& p, const AppendTables& tables) {
  for (std::size_t b = 0; b < tables.page_table.size(); ++b) {
    const std::int64_t first = tables.seqlens[b] / p.page_size;
    check_table(found, fmt::format("page_table[{}]", b), tables.page_table[b], [&](std::size_t page) {
      const bool is_written = static_cast<std::int64_t>(page) >= first;
      return is_written ? index_rule(tables.page_table[b][page], p.cache_entries, "a page of the cache")
                        : std::string();
    });
  }
}

/// Rows [first, end) of an entry or page of the cache, to which `sequence` appends.
struct AppendedRows {
  std::int64_t entry, first, end;
  std::size_t sequence;
};

/// Returns the rows that a call with sound tables writes.
std::vector<AppendedRows> appended_rows(const AppendProblem& p, const AppendTables& tables) {
  std::vector<AppendedRows> written;
  for (std::size_t b = 0; b < tables.seqlens.size(); ++b) {
    std::int64_t row = tables.seqlens[b];
    const std::int64_t end = row + rows_of(tables.cu_seqlens_new, p.seqlen_new, p.total_new, b);
    if (p.page_size == 0 && row < end) {
      const bool is_indexed = !tables.cache_batch_idx.empty();
      written.push_back({is_indexed ? tables.cache_batch_idx[b] : static_cast<std::int64_t>(b), row, end, b});
      continue;
    }
    for (std::int64_t last; row < end; row = last) {
      const std::int64_t page = row / p.page_size, begin = page * p.page_size;
      last = std::min(end, begin + p.page_size);
      written.push_back({tables.page_table[b][static_cast<std::size_t>(page)], row - begin, last - begin, b});
    }
  }
  return written;
}

/// Checks that no row is written twice. The tables must be sound in all other respects.
void check_apart(Violations& found, const AppendProblem& p, const AppendTables& tables) {
  std::vector<AppendedRows> written = appended_rows(p, tables);
  std::ranges::sort(written, {}, [](const AppendedRows& rows) {
    return std::tuple(rows.entry, rows.first, rows.sequence);
  });
  const auto shared = std::ranges::adjacent_find(written, [](const AppendedRows& a, const AppendedRows& b) {
    return a.entry == b.entry && b.first < a.end;
  });
  if (shared == written.end()) return;
  const AppendedRows& before = *shared;
  const AppendedRows& after = *std::next(shared);
  found.push_back(
      {fmt::format("seqlens[{}]", after.sequence), fmt::format("{}", tables.seqlens[after.sequence]),
       fmt::format("must not lead to row {} of {} {}, to which sequence {} appends: give it rows of its own",
                   after.first, p.page_size > 0 ? "page" : "entry", after.entry, before.sequence)});
}

/// Returns how many entries of sequence `b` in the page table must be read.
std::int64_t pages_of(const AppendProblem& p, const AppendTables& tables, std::size_t b) {
  const std::int64_t rows = rows_of(tables.cu_seqlens_new, p.seqlen_new, p.total_new, b);
  if (tables.seqlens[b] < 0 || rows == 0) return 0;
  return std::min((tables.seqlens[b] + rows + p.page_size - 1) / p.page_size, p.max_pages);
}

AppendTables tables_of(const AppendProblem& p, const AppendArgs& args, int device, Stream stream) {
  const auto copy = [&](const std::int32_t* table, std::int64_t count) {
    return copy_of(table, count, device, stream);
  };
  AppendTables tables{.seqlens = copy(args.seqlens, p.batch),
                      .rotary_seqlens = copy(args.rotary_seqlens, p.batch),
                      .cache_batch_idx = copy(args.cache_batch_idx, p.batch),
                      .cu_seqlens_new = copy(args.cu_seqlens_new, p.batch + 1),
                      .cu_seqlens_q = copy(args.cu_seqlens_q, p.batch + 1),
                      .page_table = {}};
  if (args.page_table == nullptr) return tables;
  for (std::int64_t b = 0; b < p.batch; ++b)
    tables.page_table.push_back(
        copy(args.page_table + b * args.page_table_stride, pages_of(p, tables, static_cast<std::size_t>(b))));
  return tables;
}

}  // namespace

Violations violations_of(const AppendProblem& p, const AppendTables& tables) {
  Violations found;
  check_borders(found, "new", tables.cu_seqlens_new, p.total_new);
  check_borders(found, "q", tables.cu_seqlens_q, p.total_q);
  const bool own_positions = !tables.rotary_seqlens.empty();
  check_table(found, "seqlens", tables.seqlens, [&](std::size_t b) {
    const std::int64_t first = tables.seqlens[b];
    std::string rule = range_rule(first, rows_of(tables.cu_seqlens_new, p.seqlen_new, p.total_new, b),
                                  capacity_of(p), kCacheEnds);
    if (!rule.empty() || own_positions) return rule;
    return range_rule(first, positions_of(p, tables, b), p.table_rows, kAnglesEnd);
  });
  check_table(found, "rotary_seqlens", tables.rotary_seqlens, [&](std::size_t b) {
    return range_rule(tables.rotary_seqlens[b], positions_of(p, tables, b), p.table_rows, kAnglesEnd);
  });
  check_table(found, "cache_batch_idx", tables.cache_batch_idx, [&](std::size_t b) {
    return index_rule(tables.cache_batch_idx[b], p.cache_entries, "an entry of the cache");
  });
  check_pages(found, p, tables);
  if (found.empty()) check_apart(found, p, tables);
  return found;
}

void require_sound_tables(const AppendProblem& p, const AppendArgs& args, int device, Stream stream) {
  if (!can_read_tables(device, stream)) return;
  Violations found = violations_of(p, tables_of(p, args, device, stream));
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

}  // namespace fa2
