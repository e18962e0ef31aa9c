// Parameters of the kernel that widens keys and values. Host code includes this file too.
#pragma once

#include "attention/common/params.cuh"

namespace fa2 {

/// Destinations are contiguous: (entries, rows, heads, columns).
struct WidenParams {
  AttentionParams attention;  ///< K and V, which have 8 bits, and the tables of their rows
  void* keys;
  void* values;
  int entries;  ///< sequences, or 1 if these are packed
  int rows;     ///< per entry
  int heads;
};

}  // namespace fa2
