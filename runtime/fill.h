// Constants in device memory that others allocated.
#pragma once

#include <fa2/types.h>

#include <cstddef>

namespace fa2 {

/// Sets `bytes` at `data` to 0, after the present work of `stream`. Data and stream must belong to the current context, which may be
/// the interpreter's.
/// @throws CudaError.
void fill_zeros(void* data, std::size_t bytes, Stream stream);

/// Like fill_zeros(), but sets `count` floats to `value`.
void fill(float* data, std::size_t count, float value, Stream stream);

}  // namespace fa2
