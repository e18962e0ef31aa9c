// The reference of append(), in float64: it treats one sequence after the other.
#pragma once

#include <core/append_tables.h>
#include <fa2/append.h>

#include <cstdint>
#include <vector>

namespace fa2::reference {

/// The source and the destination of a row of K and V, or of Q.
struct MovedRow {
  std::int64_t sequence = 0;
  std::int64_t entry = 0;  ///< batch entry in the call's tensors
  std::int64_t row = 0;
  std::int64_t cache_entry = 0;  ///< batch entry or page in the cache; K and V only
  std::int64_t cache_row = 0;
  std::int64_t position = 0;  ///< rotary position
};

/// Return the rows of every head that append() must move. The page table must have whole rows. Rows that the
/// tables leave out are missing.
std::vector<MovedRow> appended_rows(const AppendProblem& problem, const AppendTables& tables);
std::vector<MovedRow> turned_queries(const AppendProblem& problem, const AppendTables& tables);

/// Returns a row of Q or K, rotated by its position's row of cos and sin.
std::vector<double> turned(const AppendProblem& problem, std::vector<double> row, const float* cos,
                           const float* sin);

}  // namespace fa2::reference
