// A copy, an exchange, attention, an exchange, a merge.
#include <operation/operands/workspace.h>
#include <parallel/decode_engine.h>
#include <parallel/element_sizes.h>
#include <planning/merge.h>
#include <runtime/device.h>

#include <utility>

namespace fa2 {
AttentionProblem decode_problem(const AttentionProblem& problem, int rank) {
  AttentionProblem p = problem;
  p.float32_out = true;
  if (rank != 0) p.sinks = false;
  return p;
}

DecodeEngine::DecodeEngine(const AttentionProblem& problem, MessageCarrier& carrier, AttentionPlan plan,
                           const LoadRowKernel& kernel, RowAlignment alignment)
    : problem_(problem),
      carrier_(carrier),
      plan_(std::move(plan)),
      entries_(problem.total_q > 0 ? 1 : problem.batch),
      rows_(problem.total_q > 0 ? problem.total_q : problem.seqlen_q),
      heads_(problem.heads_q / carrier.size()),
      zero_(kFloatBytes) {
  copy_.problem = {.dtype = problem.dtype,
                   .lse_base = problem.lse_base,
                   .head_dim = problem.head_dim,
                   .batch = entries_,
                   .heads = heads_,
                   .seqlen = rows_};
  merge_problem_ = copy_.problem;
  merge_problem_.float32_parts = true;
  merge_problem_.float32_output = problem.float32_out;
  merge_problem_.head_dim = problem.head_dim_v;
  merge_problem_.parts = carrier.size();
  layout_ = layout();
  zero_.fill(0);
  if (is_empty(merge_problem_)) return;
  copy_.plan = merge_of(copy_.problem, alignment, kernel);
  merge_ = merge_of(merge_problem_, alignment, kernel);
}

std::int64_t DecodeEngine::rank_elements(std::int64_t dim) const {
  return heads_ * entries_ * rows_ * dim;
}

TensorStrides DecodeEngine::strides(std::int64_t dim) const {
  return {rows_ * dim, entries_ * rows_ * dim, dim};
}

DecodeEngine::Layout DecodeEngine::layout() const {
  Layout made;
  const auto take = [&](std::int64_t elements, std::int64_t element_bytes) {
    const std::int64_t bytes = elements * element_bytes * carrier_.size();
    return std::exchange(made.bytes, made.bytes + whole_part(static_cast<std::size_t>(bytes)));
  };
  made.q = take(rank_elements(problem_.head_dim), kElementBytes);
  made.out = take(rank_elements(problem_.head_dim_v), kFloatBytes);
  made.lse = take(rank_elements(1), kFloatBytes);
  made.parts = take(rank_elements(problem_.head_dim_v), kFloatBytes);
  made.lse_parts = take(rank_elements(1) * carrier_.size(), kFloatBytes);
  return made;
}

MessageLists DecodeEngine::messages(std::byte* workspace) {
  if (!merge_) return {};
  return {query_transfers(workspace), part_transfers(workspace)};
}

std::vector<Operand> DecodeEngine::own_operands(const AttentionArgs& args) const {
  const ElementType element = element_of(problem_.dtype);
  return {strided_operand("q", Access::read, args.q, element, {entries_, heads_, rows_, problem_.head_dim},
                          args.q_strides),
          strided_operand("out", Access::write, args.out, problem_.float32_out ? ElementType::f32 : element,
                          {entries_, heads_, rows_, problem_.head_dim_v}, args.out_strides),
          optional_operand("lse", Access::write, args.lse, ElementType::f32, {1, entries_, heads_, rows_})};
}

AttentionArgs DecodeEngine::local_args(const AttentionArgs& args, std::byte* workspace) const {
  AttentionArgs a = args;
  a.q = workspace + layout_.q;
  a.q_strides = strides(problem_.head_dim);
  a.out = workspace + layout_.out;
  a.out_strides = strides(problem_.head_dim_v);
  a.lse = reinterpret_cast<float*>(workspace + layout_.lse);
  a.empty_row_lse = EmptyRowLse::negative_infinity;
  if (carrier_.rank() != 0) a.sinks = nullptr;
  a.workspace = nullptr;
  return a;
}

template <class Message>
void DecodeEngine::for_each_distance(int first, const Message& message) const {
  const int rank = carrier_.rank(), size = carrier_.size();
  for (int distance = first; distance < size; ++distance)
    message((rank + distance) % size, (rank - distance + size) % size);
}

std::byte* DecodeEngine::queries_of(int rank, std::byte* workspace) const {
  return workspace + layout_.q + rank * rank_elements(problem_.head_dim) * kElementBytes;
}

const std::vector<Transfer>& DecodeEngine::query_transfers(std::byte* workspace) {
  const std::int64_t bytes = rank_elements(problem_.head_dim) * kElementBytes;
  const auto slice = [&](int rank) { return queries_of(rank, workspace); };
  transfers_.clear();
  for_each_distance(1, [&](int to, int from) {
    transfers_.push_back({Transfer::Kind::send, to, slice(carrier_.rank()), static_cast<std::size_t>(bytes)});
    transfers_.push_back({Transfer::Kind::receive, from, slice(from), static_cast<std::size_t>(bytes)});
  });
  return transfers_;
}

const std::vector<Transfer>& DecodeEngine::part_transfers(std::byte* workspace) {
  const auto out_bytes = static_cast<std::size_t>(rank_elements(problem_.head_dim_v) * kFloatBytes),
             lse_bytes = static_cast<std::size_t>(rank_elements(1) * kFloatBytes) * carrier_.size();
  transfers_.clear();
  const auto add = [&](Transfer::Kind kind, int peer, std::byte* data, std::size_t bytes) {
    transfers_.push_back({kind, peer, data, bytes});
  };
  // The own part too, so that all parts lie in rank order.
  for_each_distance(0, [&](int to, int from) {
    add(Transfer::Kind::send, to, workspace + layout_.out + to * out_bytes, out_bytes);
    add(Transfer::Kind::receive, from, workspace + layout_.parts + from * out_bytes, out_bytes);
    add(Transfer::Kind::send, to, workspace + layout_.lse, lse_bytes);
    add(Transfer::Kind::receive, from, workspace + layout_.lse_parts + from * lse_bytes, lse_bytes);
  });
  return transfers_;
}

void DecodeEngine::merge(const AttentionArgs& args, std::byte* workspace, Stream stream) {
  const std::int64_t all_heads = heads_ * carrier_.size();
  MergeArgs merge;
  merge.parts = workspace + layout_.parts;
  merge.part_stride = rank_elements(problem_.head_dim_v);
  merge.parts_strides = strides(problem_.head_dim_v);
  merge.lse_parts =
      reinterpret_cast<const float*>(workspace + layout_.lse_parts) + carrier_.rank() * heads_ * rows_;
  merge.lse_part_stride = entries_ * all_heads * rows_;
  merge.lse_parts_strides = {all_heads * rows_, rows_, 1};
  merge.out = args.out, merge.out_strides = args.out_strides;
  merge.lse = args.lse;
  merge.empty_row_lse = args.empty_row_lse;
  launch(*merge_, merge, operands_of(merge_problem_, merge), nullptr, stream);
}

void DecodeEngine::run(const AttentionArgs& args, std::byte* workspace, Stream stream) {
  if (!merge_) return;
  const auto exchange = [&](const auto& transfers) { carrier_.wait(carrier_.exchange(transfers, stream)); };
  enqueue(copy_, args.q, args.q_strides, queries_of(carrier_.rank(), workspace), strides(problem_.head_dim),
          static_cast<const float*>(zero_.data()), stream);
  exchange([&]() -> const std::vector<Transfer>& { return query_transfers(workspace); });
  plan_.run(local_args(args, workspace), stream);
  exchange([&]() -> const std::vector<Transfer>& { return part_transfers(workspace); });
  merge(args, workspace, stream);
}

}  // namespace fa2
