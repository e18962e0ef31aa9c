// One training on several ranks, with context parallelism, and on one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparison.h"

namespace example {

/// @throws std::runtime_error if the machine or the context does not suit the number of ranks.
void require_ranks(int ranks, const Shape& shape, bool on_gpu);

/// Trains on `ranks` ranks and on one, from the same weights on the same batches. Each rank is a thread with a replica of the model and
/// its own tokens of every sequence. `one_rank`: the plans of all tokens. Calls `after_step` on a thread of rank 0.
Comparison train_on_ranks(int ranks, const Shape& shape, const AttentionPlans& one_rank,
                          const std::vector<std::uint8_t>& text, const Schedule& schedule,
                          const AfterStep& after_step);

/// Returns why losses or gradients on several ranks are others than on one rank; empty if all is well.
std::vector<std::string> complaints_about_ranks(const Comparison& done);

}  // namespace example
