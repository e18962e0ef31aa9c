// Rows of slots from the intervals of keys, and the pipeline of groups.
#include <parallel/gather_plan.h>

#include <algorithm>
#include <utility>

namespace fa2 {
namespace {

using Kind = Transfer::Kind;

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

std::vector<HeadGroup> head_groups(std::int64_t batch, std::int64_t heads_kv,
                                   std::span<const std::int64_t> sizes) {
  std::vector<HeadGroup> all;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    const Slice part{begin, begin + size};
    all.push_back(batch > 1 ? HeadGroup{part, {0, heads_kv}} : HeadGroup{{0, 1}, part});
    begin = part.end;
  }
  return all;
}

GatherPlan plan_gather(const IntervalPlan& plan, int rank, std::vector<HeadGroup> forward,
                       std::vector<HeadGroup> backward, bool returns_gradients) {
  GatherPlan made;
  made.forward.stages = stages_of(static_cast<int>(forward.size()), false);
  made.forward.groups = std::move(forward);
  made.backward.stages = stages_of(static_cast<int>(backward.size()), returns_gradients);
  made.backward.groups = std::move(backward);
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

std::vector<std::int32_t> sum_table(const GatherPlan& plan, std::int64_t rows) {
  std::vector<std::int32_t> table(static_cast<std::size_t>(rows), -1);
  std::vector<std::int64_t> parts(static_cast<std::size_t>(rows), 1);  // of each row, so far
  for (const RowCopy& own : plan.own)
    for (std::int64_t i = 0; i < own.rows; ++i) table[own.from + i] = static_cast<std::int32_t>(own.to + i);
  for (const RowCopy& add : plan.adds) {
    for (std::int64_t i = 0; i < add.rows; ++i) {
      const std::size_t at = parts[add.to + i]++ * rows + add.to + i;
      if (at >= table.size()) table.resize(table.size() + rows, -1);
      table[at] = static_cast<std::int32_t>(add.from + i);
    }
  }
  return table;
}

void add_transfers(std::vector<Transfer>& transfers, std::span<const RowTransfer> rows, std::int64_t entries,
                   const SlotMemory& sent, const SlotMemory& received, std::size_t row_bytes) {
  for (const RowTransfer& part : rows) {
    const SlotMemory& slot = part.kind == Kind::send ? sent : received;
    for (std::int64_t entry = 0; entry < entries; ++entry)
      transfers.push_back({part.kind, part.peer,
                           static_cast<std::byte*>(slot.data) + (entry * slot.rows + part.row) * row_bytes,
                           part.rows * row_bytes});
  }
}

}  // namespace fa2
