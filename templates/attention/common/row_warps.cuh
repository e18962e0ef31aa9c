// Warps that share rows.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2 {

/// Config of a tile's rows: warps that share rows count once.
template <class Config>
struct RowWarpsConfig : Config {
  static constexpr int warps = Config::warps / Config::column_warps;
};

}  // namespace fa2
