// What kernels with texts of scores get beside AttentionParams. Host code includes this file too.
#pragma once

namespace fa2 {

/// A captured tensor or number. Its size keeps what lies behind several of them aligned for TMA.
struct CaptureParams {
  const void* data;  ///< of a tensor: its first element
  /// Of a number: its value, or the bits of a float. Of a tensor: the address of its gradient, contiguous float32, where a kernel
  /// adds to one; else 0.
  long long number;
  long long strides[4];  ///< bytes; that of the last dimension fits an int
  int sizes[4];
};

/// The tensor map of the capture whose tiles a kernel brings to shared memory. Words, because a struct that holds a TensorMap has another
/// size; they lie where TMA needs them.
struct CaptureMapParams {
  unsigned long long words[16];
};

/// A map of the blocks of 16 or more columns of which a tile of rows sees something, by the text of a mask: bits in words of 32
/// blocks. Of each tile first `words` that say which blocks some row sees, then as many that say which the text shows wholly.
struct KeyMapParams {
  unsigned* bits;
  int words;
  int tiles;    ///< of one head
  int heads;    ///< that have bits of their own; 1: all share them
  int batches;  ///< likewise
  int unused[10];
};
static_assert(sizeof(CaptureParams) == 64 && sizeof(KeyMapParams) == 64 && sizeof(CaptureMapParams) == 128,
              "AttentionParams stay where TensorMaps end");

}  // namespace fa2
