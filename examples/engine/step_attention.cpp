// Makes plans and graphs, and launches them.
#include "step_attention.h"

#include <algorithm>

#include "../model/bfloat16.h"

namespace example {
namespace {

constexpr std::size_t kWorkspaceAlignment = 256;

/// Returns the bounds of every plan, smallest first. Steps that only decode have 1, 2, 4, ... sequences, and at last a full batch.
std::vector<StepBounds> bounds_of(const EngineLimits& limits) {
  std::vector<StepBounds> all;
  for (std::int64_t batch = 1; batch < limits.batch; batch *= 2) all.push_back({batch, batch, 1});
  all.push_back({limits.batch, limits.batch, 1});
  if (limits.step_tokens > 1) all.push_back({limits.batch, limits.step_tokens, limits.step_tokens});
  return all;
}

}  // namespace

StepAttention::StepAttention(fa2::Context& context, const ModelShape& shape, const EngineLimits& limits,
                             bool batch_invariant, DecodeMode mode)
    : context_(context),
      shape_(shape),
      limits_(limits),
      layout_{limits.batch, limits.max_pages()},
      steps_([&] {
        std::vector<BoundedStep> steps;
        for (const StepBounds& bounds : bounds_of(limits)) steps.push_back(planned(bounds, batch_invariant));
        return steps;
      }()),
      on_gpu_(steps_[0].plans[0].explain().arch != "interpreter"),
      stream_(on_gpu_),
      tables_(static_cast<std::size_t>(layout_.size()) * sizeof(std::int32_t), on_gpu_),
      angles_(shape, limits.longest, on_gpu_),
      workspace_(workspace_bytes(), on_gpu_) {
  workspace_.upload(std::vector<std::byte>(workspace_.size()));
  for (std::int64_t i = 0; i < shape.layers; ++i) add_layer();
  warm_up(mode);
}

StepAttention::BoundedStep StepAttention::planned(const StepBounds& bounds, bool batch_invariant) {
  BoundedStep step{bounds, paged_append(shape_, limits_, bounds), {}, nullptr};
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer)
    step.plans.push_back(
        context_.plan(paged_attention(shape_, limits_, bounds, layer, batch_invariant)));  // found, if known
  return step;
}

/// Returns the size of the workspace that all launches share, because they are in one stream.
std::size_t StepAttention::workspace_bytes() const {
  std::size_t most = 0;
  for (const BoundedStep& step : steps_) {
    for (const fa2::AttentionPlan& plan : step.plans) most = std::max(most, plan.workspace_bytes());
  }
  return most + kWorkspaceAlignment;
}

/// Returns the offset of the workspace's first aligned byte.
std::int64_t StepAttention::workspace_begin() const {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace_.at<std::byte>(0));
  return static_cast<std::int64_t>((kWorkspaceAlignment - address % kWorkspaceAlignment) %
                                   kWorkspaceAlignment);
}

void StepAttention::add_layer() {
  layers_.emplace_back(shape_, limits_.step_tokens, limits_.pages * limits_.page_size, on_gpu_);
  LayerArguments arguments = arguments_of(shape_, layers_.back(), angles_, limits_.page_size);
  fa2::AppendArgs& append = arguments.append;
  append.cu_seqlens_q = append.cu_seqlens_new = tables_.at<std::int32_t>(layout_.cu_seqlens());
  append.seqlens = tables_.at<std::int32_t>(layout_.lengths_before());
  append.page_table = tables_.at<std::int32_t>(layout_.page_table());
  append.page_table_stride = layout_.max_pages;

  fa2::AttentionArgs& attention = arguments.attention;
  attention.cu_seqlens_q = append.cu_seqlens_q;
  attention.seqused_k = tables_.at<std::int32_t>(layout_.lengths_after());
  attention.page_table = append.page_table, attention.page_table_stride = append.page_table_stride;
  attention.workspace = workspace_.at<std::byte>(workspace_begin());
  arguments_.push_back(arguments);
}

/// Runs every plan once on sequences without tokens: this loads all kernels, append()'s included, as captures require. Then captures
/// the steps that only decode.
void StepAttention::warm_up(DecodeMode mode) {
  tables_.upload(packed(Step{}, layout_).tables);
  for (BoundedStep& step : steps_) {
    stream_.timed([&] { launch(step); });
    if (mode == DecodeMode::graphs && on_gpu_ && step.bounds.most == 1)
      step.graph = std::make_unique<StepGraph>(stream_, [&] { launch(step); });
  }
}

/// Both calls need only bounds from the host. An engine with projections on the GPU launches them between the layers' calls.
void StepAttention::launch(const BoundedStep& step) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    context_.append(step.append, arguments_[i].append, stream_.get());
    step.plans[i].run(arguments_[i].attention, stream_.get());
  }
}

LayerRows StepAttention::run(const PackedStep& batch, const LayerRows& qkv) {
  const BoundedStep& step = smallest_for(batch);
  tables_.upload(batch.tables);
  for (std::size_t i = 0; i < layers_.size(); ++i) upload(qkv[i], layers_[i].qkv);
  ran_graph_ = step.graph != nullptr;
  milliseconds_ = stream_.timed([&] { ran_graph_ ? step.graph->launch(stream_) : launch(step); });
  LayerRows o;
  for (const LayerMemory& layer : layers_) o.push_back(downloaded(layer.o, qkv[0].rows, shape_.width()));
  return o;
}

const StepAttention::BoundedStep& StepAttention::smallest_for(const PackedStep& batch) const {
  return *std::ranges::find_if(steps_, [&](const BoundedStep& step) {
    return step.bounds.most >= batch.most && step.bounds.sequences >= batch.sequences;
  });
}

std::int64_t StepAttention::graphs() const {
  return std::ranges::count_if(steps_, [](const BoundedStep& step) { return step.graph != nullptr; });
}

std::vector<fa2::Explanation> StepAttention::explanations() const {
  std::vector<fa2::Explanation> all;
  for (const BoundedStep& step : steps_) {
    for (const fa2::AttentionPlan& plan : step.plans) all.push_back(plan.explain());
  }
  return all;
}

}  // namespace example
