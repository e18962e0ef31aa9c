// Which KV blocks a mask's text lets a tile see, as a kernel before this one has found out (attention/rows/key_map.cuh).
#pragma once

#include "attention/common/scheduler.cuh"
#include "ptx/barrier.cuh"
#include "ptx/capture.cuh"
#include "ptx/math.cuh"

namespace fa2 {

/// Values of Config::key_map in the kernel that makes a map: what its rows are.
constexpr int kMapOfQueries = 1, kMapOfKeys = 2;

/// The bits of one tile in a map.
struct KeyMapWords {
  const int* seen;
  const int* whole;

  FA2_DEVICE static KeyMapWords of(const KeyMapParams& map, int tile, int head, int batch) {
    const i64 row =
        (static_cast<i64>(map.batches > 1 ? batch : 0) * map.heads + (map.heads > 1 ? head : 0)) * map.tiles +
        tile;
    const int* const words = reinterpret_cast<const int*>(map.bits) + 2 * row * map.words;
    return {words, words + map.words};
  }
};

/// A tile's view of the map. Without one every block is visited, and none is known to be shown wholly.
template <class Config, bool kHasMap = Config::key_map != 0>
struct KeyMapRow {
  template <class Params>
  FA2_DEVICE static KeyMapRow of(const Params&, const TileCoordinates&) {
    return {};
  }
  /// Returns the block to visit after block `n`; `begin` - 1 after the last.
  FA2_DEVICE int below(int n, int) const { return n - 1; }
  /// Returns whether the text shows every key of block `n`.
  FA2_DEVICE bool shows_all(int) const { return false; }
  /// Returns how many of the blocks [begin, end) are visited.
  FA2_DEVICE int count(int begin, int end) const { return end - begin; }
};
template <class Config>
struct KeyMapRow<Config, true> {
  KeyMapWords words;

  template <class Params>
  FA2_DEVICE static KeyMapRow of(const Params& params, const TileCoordinates& at) {
    return {KeyMapWords::of(params.key_map, at.q_tile, at.head, at.batch)};
  }
  FA2_DEVICE int below(int n, int begin) const {
    if (n <= begin) return n - 1;
    int word = (n - 1) / 32;
    u32 bits = word_at(words.seen, word) & (0xffffffffu >> (31 - (n - 1) % 32));
    while (bits == 0 && 32 * word > begin) bits = word_at(words.seen, --word);
    const int found = bits == 0 ? -1 : 32 * word + 31 - ptx::clz(bits);
    // The shuffle tells the compiler that all lanes agree, so that loops stay in uniform registers.
    return ptx::shfl_idx(found < begin ? begin - 1 : found, 0);
  }
  FA2_DEVICE bool shows_all(int n) const {
    return ptx::shfl_idx(static_cast<int>(word_at(words.whole, n / 32) >> (n % 32) & 1), 0) != 0;
  }

  FA2_DEVICE int count(int begin, int end) const {
    int blocks = 0;  // no block outside has a bit
    for (int word = begin / 32; 32 * word < end; ++word) blocks += ptx::popc(word_at(words.seen, word));
    return ptx::shfl_idx(blocks, 0);
  }

 private:
  FA2_DEVICE static u32 word_at(const int* from, int word) {
    return static_cast<u32>(ptx::ld_capture(from + word));
  }
};

}  // namespace fa2
