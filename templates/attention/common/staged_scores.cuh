// Tiles of the captured tensor that has an element per score (CaptureSpec::kPerScore), in shared memory.
#pragma once

#include "attention/common/captured.cuh"
#include "tile/tma_copy.cuh"

namespace fa2 {

/// A tile of a warpgroup's scores, and the position of its first one.
template <class Config>
struct StagedScores {
  static constexpr int element_bytes = Config::staged_bytes;
  using Tile = SwizzledTile<Config::staged_queries, Config::staged_keys * element_bytes / 2>;

  Tile tile{};
  int first_query = 0;
  int first_key = 0;

  /// Returns the element of a score in the tile.
  template <class Stored, class Position>
  FA2_DEVICE float read(const Position& at) const {
    const u32 row = static_cast<u32>(ptx::position_in_tile(at.query, first_query) - first_query);
    const u32 byte = static_cast<u32>(ptx::position_in_tile(at.key, first_key) - first_key) * element_bytes;
    if constexpr (element_bytes == 4) {
      return ptx::ld_staged_f32(address_of(row, byte));
    } else if constexpr (!Config::staged_pairs) {
      return ptx::cvt_f32_x2<Stored>(ptx::ld_staged_u16(address_of(row, byte))).low;
    } else {
      // A lane has pairs of keys, which take one load.
      const ptx::Pair pair = ptx::cvt_f32_x2<Stored>(ptx::ld_staged_u32(address_of(row, byte / 4 * 4)));
      return byte % 4 == 0 ? pair.low : pair.high;
    }
  }

  /// Starts to load the tile of a query head. Elements outside the tensor become zeros. One thread must call it, and the mbarrier
  /// must already expect the bytes. `Params`: AttentionParams, whose captures are known where this is used.
  template <class Params>
  FA2_DEVICE void load(const Params& params, int head, int batch, SharedAddress full) const {
    constexpr int kKeysOfGroup = Tile::group_cols * 2 / element_bytes;
    const TensorMap& map = reinterpret_cast<const TensorMap&>(params.capture_map);
    const CaptureParams& capture = params.list[Config::staged_capture];
    FA2_NO_UNROLL
    for (int group = 0; group < Tile::groups; ++group) {
      const ptx::TensorCoordinates box{{first_key + group * kKeysOfGroup, first_query,
                                        capture.strides[1] == 0 ? 0 : head,
                                        capture.strides[0] == 0 ? 0 : batch, 0}};
      ptx::tma_load(tile.base + static_cast<u32>(group * Tile::group_bytes), map, box, full);
    }
  }

 private:
  /// As Tile::chunk_address(), in an order in which constants of the unrolled loop are added last. Where queries are columns, their
  /// row in the swizzle follows from the lane.
  FA2_DEVICE SharedAddress address_of(u32 row, u32 byte) const {
    constexpr u32 kSpan = Tile::span, kRowsOfPattern = 128 / kSpan;
    const u32 of_pattern = Config::staged_pairs ? row % 8 : static_cast<u32>(fragment_col()) + row % 2;
    const u32 permutation = of_pattern / kRowsOfPattern % (kSpan / 16);
    const u32 rest = Config::staged_pairs ? row / 8 * 8 : row - of_pattern;
    return ((tile.base + of_pattern * kSpan + permutation * 16) ^ byte % kSpan) + rest * kSpan +
           byte / kSpan * Tile::group_bytes;
  }
};

/// The bytes of a StagedScores; 0 for kernels without them.
template <class Config, bool kExist = Config::score_tiles != 0>
struct StagedBytes {
  static constexpr int of_tile = 0;
};
template <class Config>
struct StagedBytes<Config, true> {
  static constexpr int of_tile = StagedScores<Config>::Tile::bytes;
};

}  // namespace fa2
