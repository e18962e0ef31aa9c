// Shared memory of the sm90 forward kernel for head dims beyond 256.
#pragma once

#include "attention/common/row_warps.cuh"
#include "attention/forward/sm90/shared_layout.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// What the first warpgroup sends to the second for each KV block, probabilities and factors of rows, and then the memory of
/// a kernel with one consumer warpgroup.
template <class Config>
struct WideLayoutSm90 {
  using Element = typename Config::Element;
  using ProbabilityTile = SwizzledTile<64, Config::tile_n>;
  static constexpr int factor_bytes = 64 * 4;
  static constexpr int rows_start = ProbabilityTile::bytes;

  struct RowConfig : RowWarpsConfig<Config> {
    static constexpr int shared_bytes = Config::shared_bytes - rows_start - factor_bytes;
  };
  using Rows = SharedLayoutSm90<RowConfig>;
  using ValueTile = typename Rows::ValueTile;

  /// Columns of O that the first warpgroup owns; they end with a group of V's tile.
  static constexpr int first_cols =
      (Rows::padded_dim_v / 2 + ValueTile::group_cols - 1) / ValueTile::group_cols * ValueTile::group_cols;
  static constexpr int last_cols = Rows::padded_dim_v - first_cols;
  static_assert(rows_start % 1024 == 0, "the widest swizzle repeats every 1024 bytes");
  static_assert(last_cols > 0, "both warpgroups have columns");
  static_assert(!Config::values_in_keys || ValueTile::span == Rows::KeyTile::span,
                "columns of K lie where V's would");

  SharedAddress base;

  FA2_DEVICE Rows rows() const { return {base + static_cast<u32>(rows_start)}; }
  FA2_DEVICE ProbabilityTile probabilities() const { return {base}; }
  /// Returns the address of the factors of this lane's two rows, which its quad shares.
  FA2_DEVICE SharedAddress factors() const {
    const int pair = ptx::warp_index() % 4 * 8 + fragment_row();
    return rows().base + static_cast<u32>(Rows::bytes + 8 * pair);
  }
  /// Returns where O is put together; queries lie there before.
  FA2_DEVICE typename Rows::OutputTile output() const { return {rows().queries(0, 0).base}; }
};

}  // namespace fa2
