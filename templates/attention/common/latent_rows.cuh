// Products with latents in rows of 656 bytes (latent_row.cuh).
//
// No column is multiplied by its factor. Scores are sums of products with each group's columns, times its factor. Before the
// product with a group's values, probabilities are multiplied by the factors of their keys.
#pragma once

#include "attention/common/latent_row.cuh"
#include "ptx/memory.cuh"
#include "tile/byte_tile.cuh"

namespace fa2 {

/// A shared tile of such rows. Its first columns are a ByteTile's.
template <int kRows>
using LatentTile = SharedTile<kRows, (LatentRow::words + 15) / 16 * 16>;

/// The columns of a shared tile from `kFirst` on, a multiple of 8.
template <class Tile, int kFirst>
struct ColumnsFrom {
  static constexpr int rows = Tile::rows;
  Tile tile;

  template <BlockOrder kOrder>
  FA2_DEVICE SharedAddress block_address(int row, int col) const {
    return tile.chunk_address(row + block_row<kOrder>(), kFirst + col + 8 * block_chunk<kOrder>());
  }
};

/// Returns the factor of a group of a row's columns.
template <class Tile>
FA2_DEVICE float latent_factor(Tile tile, int row, int group) {
  return ptx::ld_shared_f32(tile.chunk_address(row, LatentRow::factors) + static_cast<u32>(4 * group));
}

/// Computes S += Q K^T. See add_scores() in key_value_format.cuh.
template <class Element, bool kConverts, class Queries, class Keys, class Scores>
FA2_DEVICE void add_latent_scores(const Queries& q, Keys keys, Scores& scores) {
  constexpr int kGroupSteps = LatentRow::group_cols / 16;
  FA2_UNROLL
  for (int group = 0; group < LatentRow::groups; ++group) {
    Scores of_group;
    of_group.clear();
    FA2_UNROLL
    for (int k = 0; k < kGroupSteps; k += 2)
      gemm_nt_bytes_step<kConverts>(of_group, q, keys, group * kGroupSteps + k);
    FA2_UNROLL
    for (int n = 0; n < Scores::n_tiles; ++n) {
      FA2_UNROLL
      for (int col = 0; col < 2; ++col) {
        const float factor = latent_factor(keys, 8 * n + fragment_col() + col, group);
        FA2_UNROLL
        for (int m = 0; m < Scores::m_tiles; ++m) {
          scores.value[m][n][col] += factor * of_group.value[m][n][col];
          scores.value[m][n][col + 2] += factor * of_group.value[m][n][col + 2];
        }
      }
    }
  }
  q.scales.unscale(scores);  // queries for rotated columns are as they were
  const ColumnsFrom<Keys, LatentRow::rotated> rotated{keys};
  FA2_UNROLL
  for (int k = 0; k < LatentRow::rotated_cols / 16; ++k)
    gemm_nt_step<Element>(scores, q.step(LatentRow::byte_cols / 16 + k), rotated, 16 * k);
}

/// Computes O += P V for O's columns from `first_col` on. A lane's block n of O has columns of one group.
template <class Element, bool kConverts, class Tile, int kM, int kN, int kKeyBlocks>
FA2_DEVICE void add_latent_values(InterleavedTile<kM, kN>& output,
                                  const AccumulatorTile<kM, kKeyBlocks>& probabilities, Tile values,
                                  int first_col) {
  constexpr int kGroupBlocks = LatentRow::group_cols / 8, kBlocks = kN < kGroupBlocks ? kN : kGroupBlocks;
  static_assert(kGroupBlocks % kBlocks == 0 && kN % kBlocks == 0, "a part of the output has one group");
  const TileColumns<Tile, 4 * kN, LatentRow::factors, true> own{values, first_col / 2};
  FA2_UNROLL
  for (int k = 0; k < kKeyBlocks / 2; ++k) {
    FA2_UNROLL
    for (int first = 0; first < kN; first += kBlocks) {
      const int group = (first_col + 8 * first) / LatentRow::group_cols;
      AccumulatorTile<kM, 2> weighted;
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int n = i / 2, col = i % 2;
        const float factor = latent_factor(values, 16 * k + 8 * n + fragment_col() + col, group);
        FA2_UNROLL
        for (int m = 0; m < kM; ++m) {
          weighted.value[m][n][col] = factor * probabilities.value[m][2 * k + n][col];
          weighted.value[m][n][col + 2] = factor * probabilities.value[m][2 * k + n][col + 2];
        }
      }
      gemm_nn_bytes<Element, kConverts>(output, round_to_operand_a<Element>(weighted, 0), own, 16 * k, first,
                                        kBlocks);
    }
  }
}

}  // namespace fa2
