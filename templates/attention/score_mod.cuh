// What happens to a raw score before the mask and the softmax. The identity, unless the generator renders
// another one.
#pragma once

#include "tile/register_tile.cuh"

namespace fa2 {

template <class Config>
struct ScoreMod {
  template <int kM, int kN>
  FA2_DEVICE static void apply(AccumulatorTile<kM, kN>&, int /*first_row*/, int /*first_key*/) {}
};

}  // namespace fa2
