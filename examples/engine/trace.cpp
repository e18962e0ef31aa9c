// Hashes outputs.
#include "trace.h"

#include <bit>

namespace example {

std::uint64_t digest_of(const LayerRows& o, std::int64_t begin, std::int64_t count) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a, a value at a time
  for (const Matrix<float>& layer : o) {
    for (const float* value = layer.row(begin); value != layer.row(begin + count); ++value)
      hash = (hash ^ std::bit_cast<std::uint32_t>(*value)) * 1099511628211u;
  }
  return hash;
}

void add_to(Traces& traces, const Step& step, const LayerRows& o, const Matrix<float>& logits) {
  std::int64_t begin = 0, sampled = 0;
  for (const StepPart& part : step.parts) {
    Trace& trace = traces[part.sequence->request.id];
    trace.parts.push_back(
        {part.sequence->cached, part.tokens, part.samples(), digest_of(o, begin, part.tokens)});
    if (part.samples()) {
      trace.logits.emplace_back(logits.row(sampled), logits.row(sampled + 1));
      ++sampled;
    }
    begin += part.tokens;
  }
}

}  // namespace example
