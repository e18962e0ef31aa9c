// Parameters of the kernel that adds gradients of several ranks. Host code includes this file too.
#pragma once

#include "attention/common/params.cuh"

namespace fa2 {

/// Rows of parts are contiguous: float32 dK of all heads, then dV; or dQ of all heads, which takes the place of dK. `own` has own_rows per entry, `arrivals` arrival_rows.
struct SumParams {
  const float* own;
  const float* arrivals;
  const int*
      table;  ///< (parts, rows): which row of `own` for part 0, else of `arrivals`; -1: the part has none
  void* dk;
  void* dv;
  Strides dk_strides;
  Strides dv_strides;
  long long own_rows;
  long long arrival_rows;
  int entries;
  int rows;  ///< per entry
  int parts;
  int heads;
  int heads_v;       ///< of dV; 0: there is none
  int float32_sums;  ///< whether dK and dV are float32
};

}  // namespace fa2
