// A step on the device: K and V of the new tokens go into pages, and their queries attend over the pages, in every layer.
#pragma once

#include <fa2/attention.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "../model/device_memory.h"
#include "../model/gpu_stream.h"
#include "layer_memory.h"
#include "packed_step.h"
#include "problems.h"

namespace example {

enum class DecodeMode { direct, graphs };

/// Owns the paged caches of all layers, the tables, and all plans. A page has the same number in every layer.
///
/// The plans are made once. One serves steps with prefill chunks; its bounds are the engine's limits. The others serve steps
/// that only decode, at batches of 1, 2, 4, ... sequences. Such a step takes the smallest batch that holds it; the rest of the
/// batch has no tokens. With DecodeMode::graphs each of these batches is one CUDA graph of all layers.
class StepAttention {
 public:
  StepAttention(fa2::Context& context, const ModelShape& shape, const EngineLimits& limits,
                bool batch_invariant, DecodeMode mode);

  /// Computes a step and returns the attention's output in each layer.
  LayerRows run(const PackedStep& batch, const LayerRows& qkv);

  const TableLayout& layout() const { return layout_; }
  bool on_gpu() const { return on_gpu_; }
  std::int64_t graphs() const;
  /// Returns the time that the last step took on the device, without copies; ms.
  double milliseconds() const { return milliseconds_; }
  /// Returns whether the last step was a graph.
  bool ran_graph() const { return ran_graph_; }
  /// Returns the explanations of all plans.
  std::vector<fa2::Explanation> explanations() const;

 private:
  struct BoundedStep {
    StepBounds bounds;
    fa2::AppendProblem append;
    std::vector<fa2::AttentionPlan> plans;  ///< one per layer; equal layers share theirs
    std::unique_ptr<StepGraph> graph;       ///< null: the step is launched directly
  };

  BoundedStep planned(const StepBounds& bounds, bool batch_invariant);
  std::size_t workspace_bytes() const;
  std::int64_t workspace_begin() const;
  void add_layer();
  void warm_up(DecodeMode mode);
  void launch(const BoundedStep& step);
  const BoundedStep& smallest_for(const PackedStep& batch) const;

  fa2::Context& context_;
  ModelShape shape_;
  EngineLimits limits_;
  TableLayout layout_;
  std::vector<BoundedStep> steps_;  ///< smallest first; the last one has the engine's limits
  bool on_gpu_;
  GpuStream stream_;
  DeviceMemory tables_;
  RotaryTables angles_;
  DeviceMemory workspace_;
  std::deque<LayerMemory> layers_;
  std::vector<LayerArguments> arguments_;  ///< of each layer
  double milliseconds_ = 0;
  bool ran_graph_ = false;
};

}  // namespace example
