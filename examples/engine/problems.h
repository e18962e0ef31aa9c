// The engine's problems, without pointers.
#pragma once

#include <fa2/append.h>
#include <fa2/attention.h>

#include <cstdint>

#include "model_shapes.h"
#include "scheduler.h"

namespace example {

/// Upper bounds of a plan's steps. The lengths themselves are on the device.
struct StepBounds {
  std::int64_t sequences = 1;
  std::int64_t tokens = 1;  ///< new tokens of all sequences
  std::int64_t most = 1;    ///< new tokens of one sequence
};

/// Returns causal attention of a layer over pages.
fa2::AttentionProblem paged_attention(const ModelShape& shape, const EngineLimits& limits,
                                      const StepBounds& bounds, std::int64_t layer, bool batch_invariant);
/// Returns the append() of a layer, which stores new K and V in pages, and rotates Q and K.
fa2::AppendProblem paged_append(const ModelShape& shape, const EngineLimits& limits,
                                const StepBounds& bounds);

/// Return the same for one sequence of `tokens` tokens as a whole, whose K and V are contiguous.
fa2::AttentionProblem whole_attention(const ModelShape& shape, std::int64_t tokens, std::int64_t layer);
fa2::AppendProblem whole_append(const ModelShape& shape, std::int64_t tokens, std::int64_t table_rows);

}  // namespace example
