// What append() has to do, sequence by sequence, in float64.
#pragma once

#include <core/append_tables.h>
#include <fa2/append.h>

#include <cstdint>
#include <vector>

namespace fa2::reference {

/// A row of K and V, or of Q: where it comes from, and where it goes.
struct MovedRow {
  std::int64_t entry = 0;  ///< of the tensors that come with the call
  std::int64_t row = 0;
  std::int64_t cache_entry = 0;  ///< of K and V
  std::int64_t cache_row = 0;
  std::int64_t position = 0;  ///< whose angles it turns by
};

/// Of every head. Whole rows of the page table. Rows that the tables leave out are missing.
std::vector<MovedRow> appended_rows(const AppendProblem& problem, const AppendTables& tables);
std::vector<MovedRow> turned_queries(const AppendProblem& problem, const AppendTables& tables);

/// A row of Q or K, turned by its position's row of cos and sin.
std::vector<double> turned(const AppendProblem& problem, std::vector<double> row, const float* cos,
                           const float* sin);

}  // namespace fa2::reference
