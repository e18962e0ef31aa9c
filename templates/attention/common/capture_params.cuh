// What a text of scores reads in a call. Host code includes this file too.
#pragma once

namespace fa2 {

/// A tensor or a number. Its size keeps what lies behind several of them aligned for TMA.
struct CaptureParams {
  const void* data;      ///< of a tensor: its first element
  long long number;      ///< of a number: its value, or the bits of a float
  long long strides[4];  ///< elements
  int sizes[4];
};
static_assert(sizeof(CaptureParams) == 64, "AttentionParams stay where TensorMaps end");

}  // namespace fa2
