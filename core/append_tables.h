// The tables of an append() call on the host.
#pragma once

#include <cstdint>
#include <vector>

namespace fa2 {

/// Copies of a call's tables. A table that the call does not have is empty.
struct AppendTables {
  std::vector<std::int32_t> seqlens = {};                  ///< (batch)
  std::vector<std::int32_t> rotary_seqlens = {};           ///< (batch)
  std::vector<std::int32_t> cache_batch_idx = {};          ///< (batch)
  std::vector<std::int32_t> cu_seqlens_new = {};           ///< (batch + 1)
  std::vector<std::int32_t> cu_seqlens_q = {};             ///< (batch + 1)
  std::vector<std::vector<std::int32_t>> page_table = {};  ///< (batch): columns that rows are written in
};

}  // namespace fa2
