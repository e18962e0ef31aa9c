// Plans of stages.
#include <operation/operands/workspace.h>
#include <parallel/element_sizes.h>
#include <parallel/key_value_rows.h>
#include <parallel/staged_engine.h>

#include <algorithm>
#include <utility>

namespace fa2 {

StagedEngine::StagedEngine(StagedWork work, MessageCarrier& carrier, const PlanMaker& make)
    : of_(std::move(work)), carrier_(carrier) {
  for (int number = 0; number < static_cast<int>(of_.keys.stages.size()); ++number) add_stage(number, make);
  if (tokens() > 0)
    own_ = OwnRows(of_.shard, entries(), tokens(), of_.keys.own, of_.alignment, make.append, tables_);
  tables_.upload();
  layout_ = layout();
  forward_stages_ = stages_of(static_cast<int>(plans_.size()), false);
  backward_stages_ = stages_of(static_cast<int>(plans_.size()), of_.gradients.dk);
}

const AttentionPlan* StagedEngine::forward() const {
  const auto plans = std::ranges::find_if(plans_, [](const StagePlans& p) { return p.forward.has_value(); });
  return plans == plans_.end() ? nullptr : &*plans->forward;
}

const BackwardPlan* StagedEngine::backward() const {
  const auto plans = std::ranges::find_if(plans_, [](const StagePlans& p) { return p.backward.has_value(); });
  return plans == plans_.end() ? nullptr : &*plans->backward;
}

void StagedEngine::add_stage(int number, const PlanMaker& make) {
  StagePlans& plans = plans_.emplace_back();
  if (stage(number).own) ++own_stages_;
  if (make.backward && of_.gradients.dk) plans.keys = key_sum(number, make);
  if (!has_keys(number)) return;
  for (int before = 0; before < number; ++before) plans.number += has_keys(before) ? 1 : 0;
  const auto is_empty = [](const KeyStage& of) { return of.rows == 0; };
  plans.is_last = std::ranges::all_of(of_.keys.stages.begin() + number + 1, of_.keys.stages.end(), is_empty);
  const RankWork& work = of_.works[number];
  plans.sequences = SequenceTables(work, tables_);
  AttentionProblem p = work.problem;
  p.sinks &= plans.number == 0;  // they join once
  p.float32_out = true;
  plans.forward = make.forward(p);
  plans.merge = merge_after(plans, make);
  if (!make.backward) return;
  p.float32_out = false, p.float32_dq = p.float32_dk_dv = true;
  Gradients gradients = of_.gradients;
  gradients.d_sinks &= plans.number == 0;  // they follow from LSE
  if (gradients.dq || gradients.dk || gradients.d_sinks) plans.backward = make.backward(p, gradients);
  if (gradients.dq) plans.queries = query_sum(plans, make);
}

/// The last merge rounds O, also of a single part.
StagedEngine::Merge StagedEngine::merge_after(const StagePlans& plans, const PlanMaker& make) const {
  if (plans.number == 0 && !plans.is_last) return {};
  const MergeProblem merge{.dtype = of_.shard.dtype,
                           .float32_parts = true,
                           .float32_output = of_.shard.float32_out || !plans.is_last,
                           .lse_base = of_.shard.lse_base,
                           .head_dim = of_.shard.head_dim_v,
                           .parts = plans.number == 0 ? 1 : 2,
                           .batch = entries(),
                           .heads = of_.shard.heads_q,
                           .seqlen = tokens()};
  return {merge_of(merge, of_.alignment, make.merge), merge};
}

StagedEngine::Sum StagedEngine::query_sum(const StagePlans& plans, const PlanMaker& make) {
  if (plans.number == 0 && !plans.is_last) return {};
  const AttentionProblem& p = of_.shard;
  const SumProblem sum{.dtype = p.dtype,
                       .head_dim = p.head_dim,
                       .head_dim_v = p.head_dim_v,
                       .heads = p.heads_q,
                       .entries = entries(),
                       .rows = tokens(),
                       .own_rows = tokens(),
                       .arrival_rows = tokens(),
                       .parts = plans.number == 0 ? 1 : 2,
                       .float32_sums = !plans.is_last};
  std::vector<std::int32_t> rows;
  for (std::int64_t part = 0; part < sum.parts; ++part)
    for (std::int64_t row = 0; row < sum.rows; ++row) rows.push_back(static_cast<std::int32_t>(row));
  return {sum_of(sum, of_.alignment, make.sum), sum, tables_.add(rows)};
}

/// The last sum rounds dK and dV, also where nothing came home. Others add to those of own keys, where they lie.
StagedEngine::Sum StagedEngine::key_sum(int number, const PlanMaker& make) {
  const bool is_last = number + 1 == static_cast<int>(of_.keys.stages.size());
  const std::int64_t arrivals = stage(number).arrivals;
  if (tokens() == 0 || (arrivals == 0 && !is_last)) return {};
  const AttentionProblem& p = of_.shard;
  const SumProblem sum{.dtype = p.dtype,
                       .head_dim = p.head_dim,
                       .head_dim_v = p.head_dim_v,
                       .heads = p.heads_kv,
                       .heads_v = p.heads_kv,
                       .entries = entries(),
                       .rows = tokens(),
                       .own_rows = tokens(),
                       .arrival_rows = arrivals,
                       .parts = arrivals == 0 ? 1 : 2,
                       .float32_sums = !is_last};
  return {sum_of(sum, of_.alignment, make.sum), sum, tables_.add(key_table(number, is_last))};
}

/// Returns where each sum finds its parts: rows of the rank's tensors in the last stage, else of the outbox.
std::vector<std::int32_t> StagedEngine::key_table(int number, bool is_last) const {
  const auto rows = static_cast<std::size_t>(tokens());
  std::vector<std::int32_t> arrival_of(rows, -1), table;
  for (const RowCopy& add : stage(number).adds)
    for (std::int64_t i = 0; i < add.rows; ++i)
      arrival_of[add.to + i] = static_cast<std::int32_t>(add.from + i);
  for (std::size_t row = 0; row < rows; ++row) table.push_back(static_cast<std::int32_t>(row));
  if (is_last) {
    for (const RowCopy& own : of_.keys.own)
      for (std::int64_t i = 0; i < own.rows; ++i) table[own.from + i] = static_cast<std::int32_t>(own.to + i);
  }
  if (stage(number).arrivals == 0) return table;
  for (std::size_t row = 0; row < rows; ++row) table.push_back(arrival_of[table[row]]);
  return table;
}

StagedEngine::Layout StagedEngine::layout() const {
  Layout made;
  const AttentionProblem& p = of_.shard;
  const std::int64_t row = entries() * key_value_elements(p), queries = entries() * tokens() * p.heads_q;
  const int received = static_cast<int>(plans_.size()) - own_stages_;
  std::int64_t rows = 0, arrivals = 0;
  for (const KeyStage& of : of_.keys.stages)
    if (!of.own) rows = std::max(rows, of.rows), arrivals = std::max(arrivals, of.arrivals);
  const auto take = [&](std::size_t& begin, std::int64_t elements, std::int64_t element_bytes) {
    begin = std::exchange(made.bytes,
                          made.bytes + whole_part(static_cast<std::size_t>(elements * element_bytes)));
  };
  const auto take_slots = [&](SlotOffsets& slots, std::int64_t elements, std::int64_t element_bytes) {
    for (int i = 0; i < std::min(kSlots, received); ++i) take(slots[i], elements, element_bytes);
  };
  take(made.outbox, tokens() * row, kElementBytes);
  take_slots(made.keys, rows * row, kElementBytes);
  const std::size_t shared = made.bytes;
  for (std::size_t& out : made.out) take(out, queries * p.head_dim_v, kFloatBytes);
  for (std::size_t& lse : made.lse) take(lse, queries, kFloatBytes);
  const std::size_t forward = std::exchange(made.bytes, shared);
  if (of_.gradients.dq)
    for (std::size_t& dq : made.dq) take(dq, queries * p.head_dim, kFloatBytes);
  if (of_.gradients.dk) {
    take(made.own_gradients, tokens() * row, kFloatBytes);
    take_slots(made.gradients, rows * row, kFloatBytes);
    take_slots(made.arrivals, arrivals * row, kFloatBytes);
  }
  made.bytes = std::max(made.bytes, forward);
  return made;
}

}  // namespace fa2
