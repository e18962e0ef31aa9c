// Rows of slots from the intervals of keys, and the pipeline of groups.
#include <fmt/format.h>
#include <parallel/chunks.h>
#include <parallel/gather_plan.h>
#include <parallel/request_check.h>

#include <algorithm>

namespace fa2 {
namespace {

using Kind = Transfer::Kind;

/// Group g arrives in stage g, and is computed one stage later. Its gradients go home another stage later, and are added in the next.
std::vector<GatherStage> stages_of(int groups, bool with_gradients) {
  std::vector<GatherStage> stages;
  const int count = groups + (with_gradients ? 3 : 1);
  for (int stage = 0; stage < count; ++stage) {
    const auto group = [&](int delay) {
      const int g = stage - delay;
      return g >= 0 && g < groups ? std::optional(g) : std::nullopt;
    };
    stages.push_back({group(0), {}, {}, group(1)});
    if (with_gradients) stages.back().returns = group(2), stages.back().sums = group(3);
  }
  return stages;
}

/// Adds the rows that arrive from each sender, in the order of the exchange, and then sorts what is added by senders.
void plan_returns(const IntervalPlan& plan, int rank, GatherPlan& made) {
  struct Arrival {
    int sender;
    RowCopy rows;
  };
  std::vector<Arrival> arrivals;
  for (const KeyTransfer& keys : plan.transfers) {
    const std::int64_t rows = keys.keys.size();
    if (keys.to == rank)
      made.returns.push_back({Kind::send, keys.from, plan.needed[rank].of(keys.keys.begin), rows});
    if (keys.from != rank) continue;
    made.returns.push_back({Kind::receive, keys.to, made.arrivals, rows});
    arrivals.push_back({keys.to, {made.arrivals, plan.held[rank].of(keys.keys.begin), rows}});
    made.arrivals += rows;
  }
  std::ranges::stable_sort(arrivals, {}, &Arrival::sender);
  for (const Arrival& arrival : arrivals) made.adds.push_back(arrival.rows);
}

}  // namespace

GatherPlan plan_gather(const IntervalPlan& plan, int rank, int heads_kv, int groups) {
  RequestCheck rules;
  if (heads_kv < 1) rules.add("heads_kv", heads_kv, "must be at least 1");
  if (groups < 1) rules.add("groups", groups, "must be at least 1");
  rules.require_none();
  GatherPlan made;
  made.groups = equal_chunks({0, heads_kv}, std::min(groups, heads_kv), 1);
  const int count = static_cast<int>(made.groups.size());
  made.forward = stages_of(count, false);
  made.backward = stages_of(count, true);
  const RowsOfSlices &held = plan.held.at(rank), &needed = plan.needed.at(rank);
  made.rows = needed.count();
  for (const Slice& slice : held.slices())
    made.own.push_back({held.of(slice.begin), needed.of(slice.begin), slice.size()});
  for (const KeyTransfer& keys : plan.transfers) {
    if (keys.from == rank)
      made.gather.push_back({Kind::send, keys.to, needed.of(keys.keys.begin), keys.keys.size()});
    if (keys.to == rank)
      made.gather.push_back({Kind::receive, keys.from, needed.of(keys.keys.begin), keys.keys.size()});
  }
  plan_returns(plan, rank, made);
  return made;
}

std::vector<Transfer> transfers_of(std::span<const RowTransfer> rows, void* sent, void* received,
                                   std::size_t row_bytes) {
  std::vector<Transfer> transfers;
  for (const RowTransfer& part : rows) {
    void* const base = part.kind == Kind::send ? sent : received;
    transfers.push_back(
        {part.kind, part.peer, static_cast<std::byte*>(base) + part.row * row_bytes, part.rows * row_bytes});
  }
  return transfers;
}

}  // namespace fa2
