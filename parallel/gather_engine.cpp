// Plans per group, and the stages in which they run.
#include <operation/operands/workspace.h>
#include <parallel/element_sizes.h>
#include <parallel/gather_engine.h>
#include <parallel/tensor_places.h>

#include <algorithm>
#include <utility>

namespace fa2 {

GatherEngine::GatherEngine(GatherWork work, MessageCarrier& carrier, const PlanMaker& make)
    : of_(std::move(work)), carrier_(carrier) {
  add_tables();
  for (const HeadGroup& part : of_.gather.forward.groups)
    add_forward(forward_.emplace_back(group_of(part, make)), make);
  if (make.backward)
    for (const HeadGroup& part : of_.gather.backward.groups)
      add_backward(backward_.emplace_back(group_of(part, make)), make);
  tables_.upload();
  layout_ = layout();
}

const AttentionPlan* GatherEngine::forward() const {
  return forward_.front().forward ? &*forward_.front().forward : nullptr;
}

const BackwardPlan* GatherEngine::backward() const {
  return !backward_.empty() && backward_.front().backward ? &*backward_.front().backward : nullptr;
}

void GatherEngine::add_tables() {
  const std::int64_t tokens = of_.shard.seqlen_q;
  sequences_ = SequenceTables(of_.work, tables_);
  const std::vector<std::int32_t> sums = sum_table(of_.gather, tokens);
  parts_ = tokens == 0 ? 1 : static_cast<std::int64_t>(sums.size()) / tokens;
  sum_rows_ = tables_.add(sums);
}

GatherEngine::Group GatherEngine::group_of(const HeadGroup& part, const PlanMaker& make) {
  Group group{.part = part, .problem = of_.work.problem_of(part)};
  if (!of_.work.is_empty() && !of_.is_local)
    group.own = OwnRows(group.problem, part.entries.size(), of_.gather.rows, of_.gather.own, of_.alignment,
                        make.append, tables_);
  return group;
}

void GatherEngine::add_forward(Group& group, const PlanMaker& make) const {
  if (!of_.work.is_empty()) group.forward = make.forward(group.problem);
}

void GatherEngine::add_backward(Group& group, const PlanMaker& make) const {
  if (of_.work.is_empty()) return;
  const AttentionProblem& p = group.problem;
  AttentionProblem summed = p;
  summed.float32_dk_dv = !of_.is_local && of_.gradients.dk;
  group.backward = make.backward(summed, of_.gradients);
  if (!summed.float32_dk_dv) return;
  group.sum_problem = {.dtype = p.dtype,
                       .head_dim = p.head_dim,
                       .head_dim_v = p.head_dim_v,
                       .heads = p.heads_kv,
                       .heads_v = p.heads_kv,
                       .entries = group.part.entries.size(),
                       .rows = of_.shard.seqlen_q,
                       .own_rows = of_.gather.rows,
                       .arrival_rows = of_.gather.arrivals,
                       .parts = parts_};
  group.sum = sum_of(group.sum_problem, of_.alignment, make.sum);
}

GatherEngine::Layout GatherEngine::layout() const {
  Layout made;
  if (of_.is_local) return made;
  using Elements = std::array<std::int64_t, kSlots>;  // of a row of each slot
  const auto widened = [](Elements slots, const std::vector<Group>& groups) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      std::int64_t& slot = slots[i % kSlots];
      slot = std::max(slot, groups[i].part.entries.size() * groups[i].row_elements());
    }
    return slots;
  };
  const Elements backward = widened({}, backward_), either = widened(backward, forward_);
  const auto take = [&](SlotOffsets& slots, const Elements& elements, std::int64_t rows, std::size_t bytes) {
    for (std::size_t i = 0; i < slots.size(); ++i)
      slots[i] = std::exchange(made.bytes,
                               made.bytes + whole_part(static_cast<std::size_t>(rows * elements[i]) * bytes));
  };
  take(made.keys, either, of_.gather.rows, kElementBytes);
  if (!of_.gradients.dk) return made;
  take(made.gradients, backward, of_.gather.rows, kFloatBytes);
  take(made.arrivals, backward, of_.gather.arrivals, kFloatBytes);
  return made;
}

AttentionArgs GatherEngine::forward_args(const Group& group, const AttentionArgs& args,
                                         std::byte* keys) const {
  AttentionArgs a = args;
  const std::int64_t entry = group.first_entry(), head = group.first_query_head(),
                     row = entry * of_.shard.heads_q + head;
  a.q = place_of(args.q, args.q_strides, entry, head);
  a.out = place_of(args.out, args.out_strides, entry, head, 0,
                   group.problem.float32_out ? kFloatBytes : kElementBytes);
  a.lse = at_or_null(args.lse, row * of_.shard.seqlen_q);
  a.sinks = at_or_null(args.sinks, head);
  a.alibi_slopes = at_or_null(args.alibi_slopes, args.alibi_slopes_per_batch ? row : head);
  if (!of_.is_local) {
    const KeyValueRows in = key_value_rows(group.problem, of_.gather.rows, keys, kElementBytes);
    a.k = in.k, a.k_strides = in.k_strides;
    a.v = in.v, a.v_strides = in.v_strides;
  }
  sequences_.set(a, of_.work, tables_);
  a.workspace = nullptr;
  return a;
}

BackwardArgs GatherEngine::backward_args_of(const Group& group, const BackwardArgs& args, std::byte* keys,
                                            std::byte* gradients) const {
  BackwardArgs a = args;
  const std::int64_t entry = group.first_entry(), head = group.first_query_head();
  a.forward = forward_args(group, args.forward, keys);
  a.d_out = place_of(args.d_out, args.d_out_strides, entry, head);
  a.d_lse = at_or_null(args.d_lse, (entry * of_.shard.heads_q + head) * of_.shard.seqlen_q);
  a.dq = place_of(args.dq, args.dq_strides, entry, head);
  a.d_sinks = at_or_null(args.d_sinks, head);
  if (!of_.is_local && of_.gradients.dk) {
    const KeyValueRows in = key_value_rows(group.problem, of_.gather.rows, gradients, kFloatBytes);
    a.dk = in.k, a.dk_strides = in.k_strides;
    a.dv = in.v, a.dv_strides = in.v_strides;
  }
  a.workspace = nullptr;
  return a;
}

void GatherEngine::copy_own(const Group& group, const AttentionArgs& args, std::byte* keys, Stream stream) {
  group.own.enqueue(args, group.first_entry(), group.part.heads.begin,
                    key_value_rows(group.problem, of_.gather.rows, keys, kElementBytes), tables_, stream);
}

void GatherEngine::sum(int group, const BackwardArgs& args, std::byte* workspace, Stream stream) {
  const Group& g = backward_[group];
  if (!g.sum) return;
  const std::int64_t entry = g.first_entry(), head = g.part.heads.begin;
  const SumArgs sum{reinterpret_cast<const float*>(workspace + layout_.gradients[group % kSlots]),
                    reinterpret_cast<const float*>(workspace + layout_.arrivals[group % kSlots]),
                    tables_.at(sum_rows_),
                    place_of(args.dk, args.dk_strides, entry, head),
                    place_of(args.dv, args.dv_strides, entry, head),
                    args.dk_strides,
                    args.dv_strides};
  launch(*g.sum, sum, operands_of(g.sum_problem, sum), nullptr, stream);
}

const GatherPass& GatherEngine::pass_of(Pass pass) const {
  return pass == Pass::forward ? of_.gather.forward : of_.gather.backward;
}

const std::vector<GatherEngine::Group>& GatherEngine::groups_of(Pass pass) const {
  return pass == Pass::forward ? forward_ : backward_;
}

void GatherEngine::list_transfers(Pass pass, const Stage& stage, std::byte* workspace) {
  transfers_.clear();
  const auto add = [&](int group, const std::vector<RowTransfer>& rows, const auto& sent,
                       const auto& received, std::int64_t received_rows, std::int64_t element_bytes) {
    const Group& g = groups_of(pass)[group];
    add_transfers(transfers_, rows, g.part.entries.size(),
                  {workspace + sent[group % kSlots], of_.gather.rows},
                  {workspace + received[group % kSlots], received_rows},
                  static_cast<std::size_t>(g.row_elements() * element_bytes));
  };
  const Layout& at = layout_;
  if (stage.gathers) add(*stage.gathers, of_.gather.gather, at.keys, at.keys, of_.gather.rows, kElementBytes);
  if (stage.returns)
    add(*stage.returns, of_.gather.returns, at.gradients, at.arrivals, of_.gather.arrivals, kFloatBytes);
}

/// One forward or backward: the Engine of run_stages().
class GatherEngine::Run {
 public:
  Run(GatherEngine& engine, const BackwardArgs& args, std::byte* workspace, Stream stream, Pass pass)
      : engine_(engine), args_(args), workspace_(workspace), stream_(stream), pass_(pass) {}

  void prepare(int group, Stream stream) const {
    engine_.copy_own(groups()[group], args_.forward, keys_of(group), stream);
  }

  const std::vector<Transfer>& transfers_of(const Stage& stage) const {
    engine_.list_transfers(pass_, stage, workspace_);
    return engine_.transfers_;
  }

  void complete(int group) const { engine_.sum(group, args_, workspace_, stream_); }

  void compute(int number) const {
    if (engine_.of_.work.is_empty()) return;
    const Group& group = groups()[number];
    std::byte* const gradients = workspace_ + engine_.layout_.gradients[number % kSlots];
    if (pass_ == Pass::backward)
      group.backward->run(engine_.backward_args_of(group, args_, keys_of(number), gradients), stream_);
    else
      group.forward->run(engine_.forward_args(group, args_.forward, keys_of(number)), stream_);
  }

  void run() const {
    if (engine_.of_.is_local) return compute(0);
    run_stages(engine_.pass_of(pass_).stages, engine_.carrier_, engine_.streams_, stream_, *this);
  }

 private:
  const std::vector<Group>& groups() const { return engine_.groups_of(pass_); }
  std::byte* keys_of(int group) const { return workspace_ + engine_.layout_.keys[group % kSlots]; }

  GatherEngine& engine_;
  const BackwardArgs& args_;
  std::byte* workspace_;
  Stream stream_;
  Pass pass_;
};

MessageLists GatherEngine::messages(Pass pass, std::byte* workspace) {
  if (of_.is_local || groups_of(pass).empty()) return {};
  const BackwardArgs none;
  return messages_of(pass_of(pass).stages, Run(*this, none, workspace, nullptr, pass));
}

void GatherEngine::run(const AttentionArgs& args, std::byte* workspace, Stream stream) {
  Run(*this, backward_args(args), workspace, stream, Pass::forward).run();
}

void GatherEngine::run_backward(const BackwardArgs& args, std::byte* workspace, Stream stream) {
  Run(*this, args, workspace, stream, Pass::backward).run();
}

}  // namespace fa2
