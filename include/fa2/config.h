// HOW a kernel computes: the tunables. Users need this only to pin a configuration.
#pragma once

#include <fa2/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace fa2 {

/// The choices that never change what is computed, nor how exactly, only how fast. The defaults are small: they
/// can compute every problem on every GPU. One field, one visit line: rendering, key, tuning records and
/// printing all follow from `visit`.
struct KernelConfig {
  /// 80: mma.sync fed by cp.async, on every GPU. 90: wgmma fed by TMA, on Hopper; a warp loads and the others
  /// compute.
  std::int32_t mainloop = 80;
  /// What the kernel computes. 0: the forward. Of the backward, 1: delta, 2: dQ, 3: dK and dV, 4: dK, 5: dV, 7: dK, dV and
  /// sums of dQ, 8: dQ from these; their tiles are named from the side of what they compute: `tile_m` rows of Q or K a
  /// thread block, `tile_n` of the other a step. 6: dSinks, of whole heads. 9: as 7, in one order. 10: dropout's mask.
  std::int32_t pass = 0;
  std::int32_t tile_m = 64;  ///< query rows per thread block
  std::int32_t tile_n = 32;  ///< keys per step of the main loop
  std::int32_t warps = 4;    ///< that compute; each owns tile_m / warps query rows (split-Q)
  /// 80: K/V tiles in flight; 1 = one buffer each for K and V. 90: slots of the ring that K and V share.
  std::int32_t stages = 1;
  /// 80 alone. 1: Q is read into registers once, and its shared memory is reused for K and V.
  std::int32_t q_in_registers = 0;
  std::int32_t ctas_per_sm = 1;  ///< blocks per SM that the register allocation makes room for
  // For main loop 90, else as here.
  std::int32_t q_buffers = 0;  ///< 1 or 2: with 2 the next tile's Q loads while this one's is in use
  /// Of tiles over blocks. 0: a block for each. Blocks stay and take, 1 (static persistent): every n-th tile,
  /// 2 (dynamic persistent): the next that is free, 3 (split keys): equal shares of all tiles' keys, whose results are merged.
  std::int32_t schedule = 0;
  std::int32_t overlap = 0;          ///< 1: the next block's scores are computed beside this one's softmax
  std::int32_t pingpong = 0;         ///< 1: warpgroups take turns, one's softmax beside another's products
  std::int32_t speculative_max = 0;  ///< 1: the last maximum is subtracted before this block's is known
  std::int32_t skip_masked = 0;      ///< 1: a warpgroup leaves out blocks that none of its own rows sees
  /// Query heads of one key/value head whose rows share a tile; a power of two up to 64. For few queries.
  std::int32_t packed_heads = 1;
  /// Of pass 7 with main loop 80. 1: half of the warps own dV and half dK, of the same keys; else each owns both.
  std::int32_t split_gradients = 0;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& field) {
    field("mainloop", self.mainloop);
    field("pass", self.pass);
    field("tile_m", self.tile_m);
    field("tile_n", self.tile_n);
    field("warps", self.warps);
    field("stages", self.stages);
    field("q_in_registers", self.q_in_registers);
    field("ctas_per_sm", self.ctas_per_sm);
    field("q_buffers", self.q_buffers);
    field("schedule", self.schedule);
    field("overlap", self.overlap);
    field("pingpong", self.pingpong);
    field("speculative_max", self.speculative_max);
    field("skip_masked", self.skip_masked);
    field("packed_heads", self.packed_heads);
    field("split_gradients", self.split_gradients);
  }

  FA2_API friend bool operator==(const KernelConfig&, const KernelConfig&);
  friend bool operator!=(const KernelConfig& a, const KernelConfig& b) { return !(a == b); }
};

/// "mainloop=80,tile_m=128,tile_n=64,warps=4,..." in field order: the tunables of the main loop that it names, others
/// only where they are not as in KernelConfig{}.
FA2_API std::string to_string(const KernelConfig&);

/// What pinning a main loop alone comes to: a config that can compute every problem which `mainloop` (80 or 90)
/// computes at all in this pass. Any other numbers: the defaults above, with them.
FA2_API KernelConfig default_config(std::int32_t mainloop, std::int32_t pass = 0);

/// The inverse of to_string. Fields left out are those of default_config() for the main loop and the pass that the text
/// names, else for 80 and the forward. Throws InvalidRequest naming every unknown field, bad number and repeated field.
FA2_API KernelConfig parse_config(std::string_view);

}  // namespace fa2
