// Computes the served sequences again, for --check.
#pragma once

#include <fa2/attention.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model_shapes.h"
#include "scheduler.h"
#include "thin_model.h"
#include "trace.h"

namespace example {

struct Check {
  std::int64_t equal_parts = 0;  ///< steps of sequences whose outputs have the bits that they have alone
  double logits_difference = 0;  ///< largest |a - b| / |b| of a sequence's logits, against the whole sequence
  std::vector<std::string> ties;        ///< tokens that differ from the whole sequence's only by rounding
  std::vector<std::string> complaints;  ///< empty if all is well
};

/// Computes each finished sequence again in two ways.
///   Alone, with a batch of 1, in other pages and without graphs, in the chunks of its trace. Each token and all bits of each
///     output must be the same, as AttentionProblem::batch_invariant promises.
///   As a whole, in one call over a contiguous cache. Another order of sums rounds differently, so logits may differ by 0.5%, and
///     tokens only if their logits lie within 0.02.
/// Also requires that all pages are free. The served steps must have been batch-invariant and traced.
Check check(fa2::Context& context, const ModelShape& shape, const EngineLimits& limits, ThinModel& model,
            const Scheduler& scheduler, const Traces& traces);

}  // namespace example
