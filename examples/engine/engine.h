// The engine: continuous batching over a paged cache.
#pragma once

#include <cstdint>

#include "scheduler.h"
#include "step_attention.h"
#include "thin_model.h"
#include "trace.h"

namespace example {

/// Tokens and time of one step.
struct StepReport {
  std::int64_t decode_tokens = 0;
  std::int64_t prefill_tokens = 0;
  double milliseconds = 0;  ///< of append() and attention in all layers, without copies
  bool is_graph = false;    ///< whether a CUDA graph ran
};

class Engine {
 public:
  /// The scheduler, the model and the device's part must outlive the engine, and must have the same shape and limits.
  Engine(Scheduler& scheduler, ThinModel& model, StepAttention& attention)
      : scheduler_(scheduler), model_(model), attention_(attention) {}

  /// Keeps a copy of all logits and a digest of each output, for --check.
  void keep_traces() { keeps_traces_ = true; }
  /// Computes the next step. The scheduler must have work.
  StepReport step();
  const Traces& traces() const { return traces_; }

 private:
  Scheduler& scheduler_;
  ThinModel& model_;
  StepAttention& attention_;
  bool keeps_traces_ = false;
  Traces traces_;
};

}  // namespace example
