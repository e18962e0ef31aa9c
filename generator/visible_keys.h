// Which keys the queries of a problem see: counted, not listed. Of problems with query_pieces, whose positions only calls have, as if
// these were those of the last queries of all.
#pragma once

#include <fa2/args.h>
#include <fa2/problem.h>

#include <cstdint>
#include <optional>

namespace fa2 {

/// A range of rows in each entry of K and V (k_entries()), in memory.
struct VisibleRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Returns the rows from the first to the last that some query sees; other rows may hold anything. With varlen: all rows of
/// an entry, be it a page, because only the device knows the lengths.
VisibleRows visible_rows(const AttentionProblem& problem);

/// Returns visible_rows() of one call, whose positions are known if the problem has query_pieces without varlen.
VisibleRows visible_rows(const AttentionProblem& problem, const QueryPieces& pieces);

/// Returns the queries, from the first to the last, that see some of the keys `of` in a sequence of the problem's longest lengths.
VisibleRows visible_queries(const AttentionProblem& problem, const VisibleRows& of);

/// Returns how many keys of a sequence lie from the first to the last that some query sees, however memory holds them. With
/// varlen: for mean lengths.
std::int64_t visible_keys(const AttentionProblem& problem);

/// Returns the pairs of a query and a key that it sees, for one sequence and query head. Exact up to 2^53. With varlen: for
/// mean lengths. Only a call says where query_pieces are, so they count as queries that lie evenly in their sequence.
double visible_pairs(const AttentionProblem& problem);

/// Returns a bound of the keys that a query sees if windows, a causal mask or a chunk bound them on both sides; nullopt if they grow
/// with the sequence.
std::optional<std::int64_t> window_width(const AttentionProblem& problem);

/// Returns how many keys a query of a long sequence sees on average; nullopt if they grow with the sequence. In a window that is its
/// width; in a chunk under a causal mask half of that.
std::optional<double> mean_width(const AttentionProblem& problem);

/// Returns the sequence length under which the heuristics' tables look up `rows` query rows. It
/// stands for the number of KV blocks that a tile visits. Under a window or in a chunk a query sees as many keys as, on average, in
/// a causal sequence of twice mean_width().
std::int64_t table_length(const AttentionProblem& problem, std::int64_t rows);

}  // namespace fa2
