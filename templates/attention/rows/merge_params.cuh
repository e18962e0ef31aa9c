// Parameters of the merge kernel. Host code includes this file too.
#pragma once

#include "attention/common/params.cuh"

namespace fa2 {

struct MergeParams {
  const void* parts;
  const float* lse_parts;
  void* o;
  float* lse;  ///< or null
  long long part_stride;
  long long lse_part_stride;
  Strides parts_strides;
  Strides lse_strides;
  Strides o_strides;
  long long rows;  ///< batch * heads * seqlen
  int part_count;
  int heads;
  int seqlen;
  int float32_parts;
  int float32_output;
  float empty_row_lse;
};

}  // namespace fa2
