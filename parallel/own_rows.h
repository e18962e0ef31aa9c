// Copies of a rank's own rows to where they are sent from.
#pragma once

#include <fa2/append.h>
#include <fa2/args.h>
#include <parallel/device_tables.h>
#include <parallel/gather_plan.h>
#include <parallel/key_value_rows.h>
#include <parallel/tensor_copy.h>
#include <planning/plan.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace fa2 {

/// The copies, as appends to an empty cache.
class OwnRows {
 public:
  OwnRows() = default;
  /// `problem`: of the rows' heads. `slot_rows`: rows of each of the `entries` there. `append` loads the kernel of appends.
  OwnRows(const AttentionProblem& problem, std::int64_t entries, std::int64_t slot_rows,
          const std::vector<RowCopy>& rows, RowAlignment alignment, const LoadRowKernel& append,
          DeviceTables& tables);

  /// Enqueues the copies of K and V of `args`, from an entry and head on, to `slot`.
  void enqueue(const AttentionArgs& args, std::int64_t entry, std::int64_t head, const KeyValueRows& slot,
               const DeviceTables& tables, Stream stream) const;

 private:
  struct Copy {
    std::shared_ptr<const Plan> plan;
    AppendProblem problem;
    std::int64_t from = 0;    ///< first row
    std::size_t seqlens = 0;  ///< tables
    std::optional<std::size_t> borders = std::nullopt, entries = std::nullopt;
  };

  std::vector<Copy> copies_;
};

}  // namespace fa2
