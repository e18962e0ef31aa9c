// Key tiles that several thread blocks share. Each block visits a part of the tile's steps: pairs of a query
// block and a head of the group, in the order of the kernel. Its dK and dV lie in memory as float32 until dq_convert adds up
// those of all parts, in order.
#pragma once

#include "attention/common/epilogue.cuh"
#include "ptx/barrier.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"
#include "ptx/vector8.cuh"
#include "tile/float_rows.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// A block's key tile and part. In a section of BackwardParams::part_tiles tiles, all first parts precede all
/// second ones, so that blocks that run together visit the same queries.
struct PartNumber {
  u32 tile;  ///< number of the key tile in the launch
  int part;

  FA2_DEVICE static PartNumber of(const BackwardParams& params, u32 block) {
    const u32 tiles = params.part_tiles.value, round = quotient(block, params.part_tiles);
    const u32 section = quotient(round, params.parts);
    const u32 part = round - section * params.parts.value;
    const int tile = static_cast<int>(section * tiles + (block - round * tiles));
    return {static_cast<u32>(ptx::shfl_idx(tile, 0)), ptx::shfl_idx(static_cast<int>(part), 0)};
  }

  /// Returns the number of the part's block.
  FA2_DEVICE u32 block(const BackwardParams& params) const {
    const u32 tiles = params.part_tiles.value, section = quotient(tile, params.part_tiles);
    return (section * params.parts.value + static_cast<u32>(part)) * tiles + (tile - section * tiles);
  }
};

/// The steps [begin, end) of a key tile, which one of its parts visits.
struct PartSteps {
  int begin;
  int end;

  /// Returns a part's share of its tile's `steps`. A tile with few steps has fewer parts than others; a block
  /// without a part has no work.
  FA2_DEVICE static PartSteps of(const BackwardParams& params, int part, int steps) {
    const int share = largest(params, steps), begin = ptx::shfl_idx(part * share, 0), next = begin + share;
    return {begin, ptx::shfl_idx(next < steps ? next : steps, 0)};
  }
  /// Returns how many parts a tile with `steps` has.
  FA2_DEVICE static int count_of(const BackwardParams& params, int steps) {
    const int share = largest(params, steps);
    return steps > share ? (steps + share - 1) / share : 1;
  }

  FA2_DEVICE bool exist() const { return begin == 0 || begin < end; }

 private:
  /// Returns the steps of a tile's largest parts.
  FA2_DEVICE static int largest(const BackwardParams& params, int steps) {
    const int least =
        static_cast<int>(quotient(static_cast<u32>(steps) + params.parts.value - 1, params.parts));
    return least > params.part_steps ? least : params.part_steps;
  }
};

/// A block's part in memory: eight words about it, which leave the main loops their registers, then its dK and dV;
/// row by row, each row of dV behind that of dK.
template <class Config>
struct GradientPart {
  static constexpr int padded_dim = (Config::head_dim + 15) / 16 * 16;
  static constexpr int padded_dim_v = (Config::head_dim_v + 15) / 16 * 16;
  static constexpr int words = kPartWords, cols = padded_dim + padded_dim_v;
  float* at;

  /// Returns a block's part. The block's number is new, else the address would take registers in the main loop.
  FA2_DEVICE static GradientPart of(const BackwardParams& params, u32 block) {
    return {params.delta + params.part_start + static_cast<i64>(ptx::renewed(block)) * params.part_floats};
  }
  /// Returns whether the block's tile has other parts. Must follow describe(), with a barrier between.
  FA2_DEVICE static bool is_one_of_several(const BackwardParams& params, u32 block) {
    return params.parts.value > 1 && of(params, block).count() > 1;
  }

  /// Stores what the part is, by one thread. `count`: of the tile's parts. `head`: key/value head. `first_key`: the tile's first.
  FA2_DEVICE void describe(int count, const PartSteps& steps, const SequenceShape& shape, int head,
                           int first_key) const {
    if (ptx::thread_index() != 0) return;
    put(0, count, steps.begin, steps.end, shape.seqlen_k - first_key);
    put(4, shape.k_entry, head, shape.k_begin + first_key, 0);
  }
  /// Returns the number of the tile's parts.
  FA2_DEVICE int count() const { return static_cast<int>(ptx::ld_global_v4(at).word[0]); }
  FA2_DEVICE PartSteps steps() const {
    const ptx::Vector16 v = ptx::ld_global_v4(at);
    return {static_cast<int>(v.word[1]), static_cast<int>(v.word[2])};
  }

  /// Scales and stores a warp's rows of dK or dV. `first_row` counts the tile's rows.
  template <int kM, int kN>
  FA2_DEVICE void store(const AccumulatorTile<kM, kN>& gradient, float scale, int first_row,
                        bool is_dv) const {
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        float* const row = at + words + (first_row + 16 * m + 8 * half + fragment_row()) * cols +
                           (is_dv ? padded_dim : 0) + fragment_col();
        FA2_UNROLL
        for (int n = 0; n < kN && 8 * n < (is_dv ? padded_dim_v : padded_dim); ++n) {
          const float(&v)[4] = gradient.value[m][n];
          ptx::st_global_v2(row + 8 * n,
                            {{ptx::bits_of(v[2 * half] * scale), ptx::bits_of(v[2 * half + 1] * scale)}});
        }
      }
    }
  }

  /// Returns the address of the tile's first row in a tensor with key/value heads.
  template <class Word>
  FA2_DEVICE Word* first_row(void* data, const Strides& strides) const {
    const ptx::Vector16 v = ptx::ld_global_v4(at + 4);
    return static_cast<Word*>(data) + static_cast<int>(v.word[0]) * strides.batch_stride +
           static_cast<int>(v.word[1]) * strides.head_stride +
           static_cast<int>(v.word[2]) * strides.row_stride;
  }
  /// Returns how many keys the sequence has from the tile's first on.
  FA2_DEVICE int row_count() const { return static_cast<int>(ptx::ld_global_v4(at).word[3]); }
  /// Returns the address of four floats; columns of dV follow those of dK.
  FA2_DEVICE const float* four(int row, int col) const { return at + words + row * cols + col; }

 private:
  FA2_DEVICE void put(int word, int a, int b, int c, int d) const {
    ptx::st_global_v4(at + word,
                      {{static_cast<u32>(a), static_cast<u32>(b), static_cast<u32>(c), static_cast<u32>(d)}});
  }
};

/// Adds up the parts of kMergedRows keys, in the launch after that of the parts. `block`: below
/// BackwardParams::merge_blocks.
template <class Config>
FA2_DEVICE void merge_parts(const BackwardParams& params, u32 block) {
  using Part = GradientPart<Config>;
  constexpr int kFours = Part::cols / 4;
  const u32 shares = static_cast<u32>(params.part_rows / kMergedRows), tile = block / shares;
  const Part first = Part::of(params, PartNumber{tile, 0}.block(params));
  const int count = first.count();
  if (count == 1) return;  // its block has stored the gradients
  using Word = Stored<Config::float32_dk_dv>;
  Word* const dk = first.template first_row<Word>(params.dk, params.dk_strides);
  Word* const dv = first.template first_row<Word>(params.dv, params.dv_strides);
  const int begin = static_cast<int>(block % shares) * kMergedRows, left = first.row_count() - begin;
  const int rows = left < kMergedRows ? left : kMergedRows;
  const i64 next =
      static_cast<i64>(params.part_tiles.value) * params.part_floats;  // floats to the tile's next part
  for (int i = ptx::thread_index(); i < rows * kFours; i += Config::warps * 32) {
    const int row = begin + i / kFours, col = i % kFours * 4;
    float sum[4] = {};
    for (int part = 0; part < count; ++part) {
      float more[4];
      ptx::ld_global_v4_f32(first.four(row, col) + part * next, more);
      FA2_UNROLL
      for (int j = 0; j < 4; ++j) sum[j] += more[j];
    }
    if (col < Config::head_dim) store_four<Config>(dk + row * params.dk_strides.row_stride + col, sum);
    const int col_v = col - Part::padded_dim;
    if (col_v >= 0 && col_v < Config::head_dim_v)
      store_four<Config>(dv + row * params.dv_strides.row_stride + col_v, sum);
  }
}

}  // namespace fa2
