// What tables of append() hold, checked on the host: FA2_CHECK=1, and the interpreter.
#pragma once

#include <fa2/append.h>
#include <operation/rules/violations.h>

#include <cstdint>
#include <vector>

namespace fa2 {

/// Copies of a call's tables; none of those that it has not.
struct AppendTables {
  std::vector<std::int32_t> seqlens = {};                  ///< (batch)
  std::vector<std::int32_t> rotary_seqlens = {};           ///< (batch)
  std::vector<std::int32_t> cache_batch_idx = {};          ///< (batch)
  std::vector<std::int32_t> cu_seqlens_new = {};           ///< (batch + 1)
  std::vector<std::int32_t> cu_seqlens_q = {};             ///< (batch + 1)
  std::vector<std::vector<std::int32_t>> page_table = {};  ///< (batch): columns that rows are written in
};

/// The first entry of each table that AppendArgs does not allow, and how many more there are.
Violations violations_of(const AppendProblem& problem, const AppendTables& tables);

/// Reads the tables of valid arguments of a call on `device`, which is current: waits for `stream`. Where that captures
/// nothing can be read: a warning says so once. @throws InvalidRequest with everything that violations_of() finds,
/// CudaError.
void require_sound_tables(const AppendProblem& problem, const AppendArgs& args, int device, Stream stream);

}  // namespace fa2
