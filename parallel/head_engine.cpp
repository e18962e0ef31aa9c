// Plans and memory of attention by heads.
#include <operation/operands/workspace.h>
#include <parallel/head_engine.h>

#include <algorithm>
#include <utility>

namespace fa2 {

std::int64_t bytes_between(const HeadWork& work, int from, int to) {
  const AttentionProblem& p = work.problem;
  const std::int64_t queries = work.queries_per_kv();
  const auto heads_of = [&](int rank) {
    std::int64_t heads = 0;
    for (const std::vector<Slice>& shares : work.shares) heads += shares[rank].size();
    return heads;
  };
  const std::int64_t in = (queries * p.head_dim + p.head_dim + p.head_dim_v) * kElementBytes,
                     out = queries * (p.head_dim_v * kElementBytes + kFloatBytes);
  return work.entries() *
         (work.held[from].count() * heads_of(to) * in + work.held[to].count() * heads_of(from) * out);
}

HeadEngine::HeadEngine(HeadWork work, MessageCarrier& carrier, const PlanMaker& make)
    : of_(std::move(work)), carrier_(carrier), own_tokens_(of_.held[carrier.rank()].count()) {
  add_messages();
  for (const std::vector<Slice>& shares : of_.shares) add_group(shares, make);
  for (const HeadRow* const row : {&forward_.in, &forward_.out, &backward_.in, &backward_.out})
    add_copies(*row, make);
  zero_ = tables_.add({0});
  cu_seqlens_ = tables_.add({of_.cu_seqlens.begin(), of_.cu_seqlens.end()});
  tables_.upload();
  layout_ = layout();
  stages_ = stages_of(static_cast<int>(groups_.size()), true);
}

const BackwardPlan* HeadEngine::backward() const {
  return groups_.front().backward ? &*groups_.front().backward : nullptr;
}

void HeadEngine::add_messages() {
  const AttentionProblem& p = of_.problem;
  const std::int64_t queries = of_.queries_per_kv();
  const Gradients& g = of_.gradients;
  forward_.in.add(queries, p.head_dim), forward_.in.add(1, p.head_dim), forward_.in.add(1, p.head_dim_v);
  forward_.out.add(queries, p.head_dim_v);
  backward_.in = forward_.in;
  backward_.in.add(queries, p.head_dim_v), backward_.in.add(queries, p.head_dim_v);  // O and dO
  if (g.dq) backward_.out.add(queries, p.head_dim);
  if (g.dk) backward_.out.add(1, p.head_dim), backward_.out.add(1, p.head_dim_v);
  backward_.arrays = 2;
}

void HeadEngine::add_group(const std::vector<Slice>& shares, const PlanMaker& make) {
  Group& group = groups_.emplace_back(Group{shares, shares[carrier_.rank()], 0});
  for (const Slice& share : shares) group.all_heads += share.size();
  AttentionProblem own = of_.problem;
  own.heads_kv = group.heads.size(), own.heads_q = own.heads_kv * of_.queries_per_kv();
  group.forward = make.forward(own);
  if (make.backward) group.backward = make.backward(own, of_.gradients);
}

void HeadEngine::add_copies(const HeadRow& row, const PlanMaker& make) {
  if (own_tokens_ == 0) return;
  for (std::size_t tensor = 0; tensor < row.tensors(); ++tensor) {
    for (const Group& group : groups_) {
      for (const Slice& share : group.shares) {
        const std::int64_t heads = share.size() * row.heads(tensor), dim = row.dim(tensor);
        if (copies_.contains({heads, dim})) continue;
        const MergeProblem copy{.dtype = of_.problem.dtype,
                                .head_dim = static_cast<std::int32_t>(dim),
                                .batch = of_.entries(),
                                .heads = heads,
                                .seqlen = own_tokens_};
        copies_.emplace(std::pair(heads, dim), TensorCopy{copy, merge_of(copy, of_.alignment, make.merge)});
      }
    }
  }
}

HeadEngine::Layout HeadEngine::layout() const {
  Layout made;
  const std::int64_t own = own_tokens_ * of_.entries(), all = of_.tokens() * of_.entries();
  const auto take = [&](SlotOffsets& slots, const auto& bytes_of) {
    std::int64_t most = 0;
    for (const Messages* const messages : {&forward_, &backward_})
      for (const Group& group : groups_)
        if (messages == &forward_ || group.backward) most = std::max(most, bytes_of(*messages, group));
    for (std::size_t i = 0; i < std::min(slots.size(), groups_.size()); ++i)
      slots[i] = std::exchange(made.bytes, made.bytes + whole_part(static_cast<std::size_t>(most)));
  };
  take(made.sent, [&](const Messages& m, const Group& g) {
    return own * g.all_heads * m.in.elements() * kElementBytes;
  });
  take(made.gathered, [&](const Messages& m, const Group& g) {
    return all * g.heads.size() * m.in.elements() * kElementBytes;
  });
  take(made.results, [&](const Messages& m, const Group& g) {
    return all * g.heads.size() * m.out.elements() * kElementBytes;
  });
  take(made.returned, [&](const Messages& m, const Group& g) {
    return own * g.all_heads * m.out.elements() * kElementBytes;
  });
  take(made.arrays, [&](const Messages& m, const Group& g) {
    return static_cast<std::int64_t>(m.arrays) * all * g.heads.size() * of_.queries_per_kv() * kFloatBytes;
  });
  const std::size_t arrays = backward() == nullptr ? forward_.arrays : backward_.arrays;
  for (std::size_t array = 0; array < arrays; ++array)
    made.own_arrays[array] = std::exchange(made.bytes, made.bytes + whole_part(own_array_bytes()));
  return made;
}

}  // namespace fa2
