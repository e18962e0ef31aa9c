// Tensors that a call writes in float32, where another of 16-bit elements would be rounded.
#pragma once

#include <vector>

#include "gpu_attention.h"

namespace fa2::test {

/// The rows of each sequence.
using SequenceRowsList = std::vector<reference::SequenceRows>;

/// A tensor in float32, with a pattern in its memory.
class FloatTensor {
 public:
  explicit FloatTensor(const Layout& layout);

  void* data() const;
  const TensorStrides& strides() const { return layout_.strides; }

  /// Returns the elements of these rows of every head. CHECKs that nothing else was written.
  std::vector<float> rows(const SequenceRowsList& rows) const;

 private:
  Layout layout_;
  DeviceBuffer buffer_;
};

/// CHECKs that these rows have the bits of `halves` once they are rounded, and that they were not rounded before.
void expect_unrounded(const FloatTensor& tensor, const reference::Tensor& halves, DType dtype,
                      const SequenceRowsList& rows);

}  // namespace fa2::test
