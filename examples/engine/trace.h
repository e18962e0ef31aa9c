// Records of each sequence's steps, for --check.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "packed_step.h"

namespace example {

/// One step's part of a sequence.
struct TracedPart {
  std::int64_t begin = 0;    ///< cached tokens before it; 0 again after a preemption
  std::int64_t tokens = 0;   ///< new tokens
  bool sampled = false;      ///< whether a token was generated
  std::uint64_t digest = 0;  ///< of the bits of these tokens' attention outputs, in all layers
};

struct Trace {
  std::vector<TracedPart> parts;           ///< in the order of steps
  std::vector<std::vector<float>> logits;  ///< one row per generated token
};

/// By the ids of requests.
using Traces = std::map<std::int64_t, Trace>;

/// Returns a hash of the bits of rows [begin, begin + count) in all layers.
std::uint64_t digest_of(const LayerRows& o, std::int64_t begin, std::int64_t count);

/// Adds a step that the scheduler has not committed yet.
void add_to(Traces& traces, const Step& step, const LayerRows& o, const Matrix<float>& logits);

}  // namespace example
