// The backward kernels on wgmma, fed by TMA.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

namespace backward_sm90 {

/// Returns the floats per query of the dQ accumulator (templates/attention/backward/sums.cuh).
int sum_cols(const AttentionTraits& traits);

}  // namespace backward_sm90
}  // namespace fa2
