// Keys per slice and document, then intersected with the slices of other ranks.
#include <fmt/format.h>
#include <parallel/chunks.h>
#include <parallel/interval_plan.h>
#include <parallel/request_check.h>

#include <algorithm>
#include <tuple>

namespace fa2 {
namespace {

std::vector<Slice> needed_by(const std::vector<Slice>& slices, const StreamMask& mask) {
  std::vector<Slice> needed;
  for (const Slice& slice : slices) {
    for (const Slice& queries : mask.by_document(slice)) {
      const Slice keys = mask.keys_of(queries);
      // Bounds of a mask never decrease, so only the end of what is needed already can overlap.
      const std::int64_t begin = needed.empty() ? keys.begin : std::max(keys.begin, needed.back().end);
      if (begin < keys.end) add_slice(needed, {begin, keys.end});
    }
  }
  return needed;
}

void require_layout(const ShardLayout& layout, const StreamMask& mask) {
  RequestCheck found;
  found.add(violations(layout));
  if (layout.tokens != mask.tokens())
    found.add("layout.tokens", layout.tokens,
              fmt::format("must equal the tokens of the problem, {}", mask.tokens()));
  found.require_none();
}

}  // namespace

std::int64_t IntervalPlan::received_by(int rank) const {
  std::int64_t sum = 0;
  for (const KeyTransfer& transfer : transfers) sum += transfer.to == rank ? transfer.keys.size() : 0;
  return sum;
}

IntervalPlan plan_intervals(const ShardLayout& layout, const StreamMask& mask) {
  require_layout(layout, mask);
  const int ranks = layout.size();
  IntervalPlan plan;
  for (const std::vector<Slice>& slices : layout.ranks) {
    plan.held.emplace_back(slices);
    plan.needed.emplace_back(needed_by(slices, mask));
  }
  for (int distance = 1; distance < ranks; ++distance) {
    for (int to = 0; to < ranks; ++to) {
      const int from = (to - distance + ranks) % ranks;
      for (const Slice& wanted : plan.needed[to].slices()) {
        for (const Slice& keys : plan.held[from].within(wanted)) plan.transfers.push_back({from, to, keys});
      }
    }
  }
  return plan;
}

}  // namespace fa2
