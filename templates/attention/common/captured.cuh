// What texts of scores capture, as values.
#pragma once

#include "attention/common/score_captures.cuh"
#include "ptx/capture.cuh"
#include "ptx/math.cuh"

namespace fa2::score {

/// Returns where an element lies, in bytes from the first one. `index`: one per dimension, each in its size. The last one usually
/// changes from score to score; its product takes one instruction.
FA2_DEVICE i64 offset_in(const CaptureParams&) {
  return 0;
}
template <class... Index>
FA2_DEVICE i64 offset_in(const CaptureParams& capture, Index... index) {
  constexpr int kLast = sizeof...(Index) - 1;
  i64 offset = 0;
  int dimension = 0;
  ((offset += dimension == kLast ? static_cast<i64>(index) * static_cast<int>(capture.strides[kLast])
                                 : index * capture.strides[dimension],
    ++dimension),
   ...);
  return offset;
}

/// Returns the index in a dimension of a tensor that has an element per score: 0 in a dimension that all share.
FA2_DEVICE int index_of_score(int index, int size) {
  return size == 1 ? 0 : ptx::index_in(index, size);
}

/// Returns the address of an element.
template <class Stored>
FA2_DEVICE const Stored* address_of(const CaptureParams& capture, i64 offset) {
  return reinterpret_cast<const Stored*>(static_cast<const char*>(capture.data) + offset);
}

/// Returns an element as texts see it: a float of a floating type.
template <class Element>
FA2_DEVICE auto element_at(const CaptureParams& capture, i64 offset) {
  return ptx::ld_capture(address_of<Element>(capture, offset));
}
template <>
FA2_DEVICE auto element_at<Half>(const CaptureParams& capture, i64 offset) {
  return ptx::cvt_f32_x2<Half>(ptx::ld_capture(address_of<u16>(capture, offset))).low;
}
template <>
FA2_DEVICE auto element_at<BFloat16>(const CaptureParams& capture, i64 offset) {
  return ptx::cvt_f32_x2<BFloat16>(ptx::ld_capture(address_of<u16>(capture, offset))).low;
}
template <>
FA2_DEVICE auto element_at<bool>(const CaptureParams& capture, i64 offset) {
  return ptx::ld_capture(address_of<unsigned char>(capture, offset)) != 0;
}

template <class Value>
FA2_DEVICE Value number_of(const CaptureParams& capture) {
  return static_cast<Value>(capture.number);
}
template <>
FA2_DEVICE float number_of<float>(const CaptureParams& capture) {
  return ptx::float_of(static_cast<u32>(capture.number));
}

}  // namespace fa2::score
