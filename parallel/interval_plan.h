// Which keys ranks must send each other.
#pragma once

#include <fa2/context_parallel.h>
#include <parallel/rows_of_slices.h>
#include <parallel/stream_mask.h>

#include <cstdint>
#include <vector>

namespace fa2 {

/// Keys that `to` needs, all of one slice of `from`, which is another rank.
struct KeyTransfer {
  int from = 0;
  int to = 0;
  Slice keys;
  friend bool operator==(const KeyTransfer&, const KeyTransfer&) = default;
};

/// The keys that each rank's queries see, and where they come from. Every rank computes the same plan for all.
struct IntervalPlan {
  std::vector<RowsOfSlices> held;  ///< per rank: its slices, in the order of its tensors
  std::vector<RowsOfSlices>
      needed;  ///< per rank: the keys that its queries see, own ones too, and their rows once gathered
  /// In the order in which both ranks list them: by distance to - from modulo the ranks, so that at each distance all ranks send and
  /// receive; then by `to`, then by keys.
  std::vector<KeyTransfer> transfers;

  /// Returns the number of keys that a rank receives.
  std::int64_t received_by(int rank) const;
};

/// @throws InvalidRequest if the layout is wrong, or of another number of tokens than the mask.
IntervalPlan plan_intervals(const ShardLayout& layout, const StreamMask& mask);

}  // namespace fa2
