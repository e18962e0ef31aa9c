// One rank's part in attention by groups of heads: while a group is computed, the keys of the next arrive and the gradients of the one
// before go home.
//
// Keys: a slot has K and V of one group for all needed keys of the rank (IntervalPlan::needed), row by row: (rows, heads of the group,
// dim). Own rows are copied into it and sent from there; other ranks' rows are received in their places. Kernels read the slot alone.
// Gradients: a slot of the same rows has the float32 dK and dV of this rank's queries. Rows of other ranks' keys are sent to
// their owner, which receives them in an arrivals slot. It adds to its own gradients those of other ranks, in rank order, so that every run
// has the same bits.
// Slots are those of stages.h.
#pragma once

#include <fa2/communicator.h>
#include <parallel/interval_plan.h>
#include <parallel/stages.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fa2 {

/// Batch entries and key/value heads that are computed together: some entries with all heads, or one entry with some heads.
struct HeadGroup {
  Slice entries;
  Slice heads;
  friend bool operator==(const HeadGroup&, const HeadGroup&) = default;
};

/// Returns groups of so many key/value heads each, or of so many whole entries if there are several.
std::vector<HeadGroup> head_groups(std::int64_t batch, std::int64_t heads_kv,
                                   std::span<const std::int64_t> sizes);

/// Rows that are copied or added from one place to another.
struct RowCopy {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t rows = 0;
  friend bool operator==(const RowCopy&, const RowCopy&) = default;
};

/// Rows of a slot that are sent or received.
struct RowTransfer {
  Transfer::Kind kind = Transfer::Kind::send;
  int peer = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  friend bool operator==(const RowTransfer&, const RowTransfer&) = default;
};

/// The groups of a forward or a backward, and when they run.
struct GatherPass {
  std::vector<HeadGroup> groups;
  std::vector<Stage> stages;
};

/// Rows are the same for all groups.
struct GatherPlan {
  GatherPass forward;
  GatherPass backward;
  std::int64_t rows = 0;            ///< rows of a slot of keys or of gradients
  std::int64_t arrivals = 0;        ///< rows of an arrivals slot
  std::vector<RowCopy> own;         ///< rows of the rank's tensors, to rows of a slot
  std::vector<RowTransfer> gather;  ///< rows of a slot of keys
  std::vector<RowTransfer>
      returns;  ///< sends: rows of a slot of gradients; receives: rows of an arrivals slot
  std::vector<RowCopy>
      adds;  ///< rows of an arrivals slot, to rows of the rank's tensors; by sender, then by keys
};

/// `returns_gradients`: whether the backward makes dK and dV.
GatherPlan plan_gather(const IntervalPlan& plan, int rank, std::vector<HeadGroup> forward,
                       std::vector<HeadGroup> backward, bool returns_gradients = true);

/// Returns where the sum of each of the rank's rows finds its parts, in the order in which they are added: (parts, `rows`), first rows
/// of the own slot, then rows of the arrivals slot, or -1.
std::vector<std::int32_t> sum_table(const GatherPlan& plan, std::int64_t rows);

/// A slot: contiguous rows of each entry.
struct SlotMemory {
  void* data = nullptr;
  std::int64_t rows = 0;  ///< per entry
};

/// Appends the transfers of rows of `row_bytes` bytes each, of every entry. Sends read `sent`, and receives write to `received`.
void add_transfers(std::vector<Transfer>& transfers, std::span<const RowTransfer> rows, std::int64_t entries,
                   const SlotMemory& sent, const SlotMemory& received, std::size_t row_bytes);

}  // namespace fa2
