// A rank's queries as sequences of a kernel whose diagonal has two pieces.
#pragma once

#include <parallel/interval_plan.h>
#include <parallel/stream_mask.h>

#include <cstdint>
#include <vector>

namespace fa2 {

/// Queries of a rank in one document. Query i has its own key at row i + first of `keys` if i < split, else at row i + second. Masks and
/// windows count from there, and keys around it are in the order of the stream. second >= first, so visible keys never decrease.
struct LocalSequence {
  Slice queries;           ///< rows of the rank's Q
  Slice keys;              ///< rows of its needed keys, once gathered
  std::int64_t split = 0;  ///< queries of the first piece; 1 .. queries.size()
  std::int64_t first = 0;
  std::int64_t second = 0;  ///< unused without a second piece
  friend bool operator==(const LocalSequence&, const LocalSequence&) = default;
};

/// Returns the sequences of a rank, in the order of its queries. A document of which the rank has more than two slices becomes
/// several sequences, whose keys overlap.
std::vector<LocalSequence> local_sequences(const IntervalPlan& plan, const StreamMask& mask, int rank);

}  // namespace fa2
