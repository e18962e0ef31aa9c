// The memory of a tensor that texts of scores capture.
#pragma once

#include <core/element_type.h>
#include <core/text_reads.h>
#include <fa2/score_text.h>
#include <operation/operands/overlap.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace fa2 {

constexpr int bytes_of(CaptureType type) {
  return type == CaptureType::boolean ? 1 : bytes_of(static_cast<ElementType>(type));
}

/// Returns the range from the lowest to the highest byte of any element. Strides may have either sign.
inline ByteRange captured_bytes(const CaptureSpec& spec, const ScoreCapture& capture) {
  const Int128 bytes = bytes_of(spec.type);
  ByteRange range;
  range.begin = static_cast<Int128>(reinterpret_cast<std::uintptr_t>(capture.data));
  range.end = range.begin + bytes;
  for (int i = 0; i < dimensions_of(spec); ++i) {
    const Int128 reach = (Int128{capture.sizes[i]} - 1) * capture.strides[i] * bytes;
    (reach < 0 ? range.begin : range.end) += reach;
  }
  return range;
}

/// Returns the bytes of a capture's gradient: contiguous float32. Sizes that the rules refuse count as the nearest that they allow.
inline ByteRange gradient_bytes(const CaptureSpec& spec, const ScoreCapture& capture, const float* gradient) {
  ByteRange range;
  range.begin = static_cast<Int128>(reinterpret_cast<std::uintptr_t>(gradient));
  Int128 elements = 1;
  for (int i = 0; i < dimensions_of(spec); ++i)
    elements *= std::clamp<std::int64_t>(capture.sizes[i], 1, std::numeric_limits<std::int32_t>::max());
  range.end = range.begin + elements * Int128{sizeof(float)};
  return range;
}

}  // namespace fa2
