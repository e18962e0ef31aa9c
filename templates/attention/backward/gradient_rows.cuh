// Rows of gradients in memory.
#pragma once

#include "attention/common/head_rows.cuh"
#include "tile/float_rows.cuh"

namespace fa2 {

/// Returns the rows of one head in dQ, dK or dV, beginning with `row`.
template <bool kFloat32, int kCols>
FA2_DEVICE auto gradient_rows(void* data, const Strides& strides, int batch, int head, i64 row) {
  if constexpr (kFloat32) {
    return FloatRows<kCols>{static_cast<float*>(data) + batch * strides.batch_stride +
                                head * strides.head_stride + row * strides.row_stride,
                            strides.row_stride};
  } else {
    return head_rows<kCols>(data, strides, batch, head, row);
  }
}

}  // namespace fa2
