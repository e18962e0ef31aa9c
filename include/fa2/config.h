// How a kernel computes: its name and its tunables. Only users who pin a configuration need this.
#pragma once

#include <fa2/types.h>

#include <cstdint>
#include <string>
#include <string_view>

/// Calls KERNEL(name) for every kernel, in the order of KernelId. A new kernel is one line here, and its own files. Where several
/// kernels compute a problem, the later one is preferred.
/// _sm80: mma.sync fed by cp.async, on every GPU. _sm90: wgmma fed by TMA, on Hopper; one warp loads and the others compute.
// clang-format off
#define FA2_KERNELS(KERNEL)                                                                            \
    KERNEL(forward_sm80)                                                                                 \
    KERNEL(forward_split)         /* few queries, on every GPU: split KV over blocks and warps */        \
    KERNEL(forward_sm90)                                                                                 \
    KERNEL(forward_wide)          /* head dims beyond 256, on every GPU */                               \
    KERNEL(forward_wide_sm90)                                                                            \
    KERNEL(backward_delta)        /* rowsum(dO * O) */                                                   \
    KERNEL(backward_dq_sm80)                                                                             \
    KERNEL(backward_dk_dv_sm80)                                                                          \
    KERNEL(backward_dk_sm80)                                                                             \
    KERNEL(backward_dv_sm80)                                                                             \
    KERNEL(backward_sinks)        /* dSinks; a block per head */                                         \
    KERNEL(backward_captures)     /* gradients of tensors that texts of scores capture */                \
    KERNEL(backward_sm80)         /* dK and dV; accumulates dQ in float32 */                             \
    KERNEL(backward_convert_sm80) /* rounds the dQ of backward_sm80 */                                   \
    KERNEL(backward_sm90)         /* dK and dV; accumulates dQ in float32 */                             \
    KERNEL(backward_convert_sm90) /* rounds the dQ of backward_sm90 and backward_ordered_sm90 */         \
    KERNEL(backward_ordered_sm90) /* as backward_sm90; accumulates dQ in one order */                    \
    KERNEL(key_map)               /* which KV blocks the text of a mask shows */                         \
    KERNEL(dropout_mask)                                                                                 \
    KERNEL(merge)                                                                                        \
    KERNEL(sum_parts)             /* float32 gradients in parts, added and rounded */                   \
    KERNEL(put_messages)          /* messages into memory of other ranks */                              \
    KERNEL(append)                                                                                       \
    KERNEL(widen) /* 8-bit keys and values, in 16 bits */
// clang-format on

namespace fa2 {

/// The name of a kernel; its word in texts, tuning records and pins is the same: "forward_sm90".
enum class KernelId : std::int32_t {
#define FA2_ENUMERATOR(name) name,
  FA2_KERNELS(FA2_ENUMERATOR)
#undef FA2_ENUMERATOR
};

FA2_API std::string_view to_string(KernelId);

/// A kernel, and the choices that change neither its results nor their accuracy, only its speed. The defaults are small:
/// forward_sm80 computes every problem on every GPU with them. One field, one visit line: rendering, key, tuning records and
/// printing all follow from `visit`. A kernel ignores no field: those that are not its own must have their defaults.
struct KernelConfig {
  KernelId kernel = KernelId::forward_sm80;
  /// Rows per thread block: queries, or keys in a backward kernel that computes dK or dV.
  std::int32_t tile_m = 64;
  /// Rows of the other side per iteration: keys, or queries in a backward kernel that computes dK or dV.
  std::int32_t tile_n = 32;
  std::int32_t warps =
      4;  ///< warps that compute; each owns tile_m / warps rows, except in forward_split and forward_wide
  /// Buffers of a ring. forward_sm80 and forward_wide: tiles of K and V in flight; 1: one buffer each. forward_split: per warp. forward_sm90:
  /// slots that K and V share. Backward: tiles of the side that the loop reads.
  std::int32_t stages = 1;
  /// 1: Q is read into registers once. forward_sm80 then reuses its shared memory for K and V.
  std::int32_t q_in_registers = 0;
  std::int32_t ctas_per_sm = 1;  ///< blocks per SM that the register allocation makes room for
  std::int32_t q_buffers = 0;    ///< forward_sm90; 1 or 2: with 2 the next tile's Q loads while one is in use
  /// forward_sm90: how tiles are assigned to blocks. 0: one block per tile. Otherwise blocks are persistent and take, 1
  /// (static persistent): every n-th tile, 2 (dynamic persistent): the next free tile, 3 (split KV): equal ranges of all
  /// tiles' keys, whose partial outputs are merged.
  std::int32_t schedule = 0;
  std::int32_t overlap = 0;  ///< 1: computes the next KV block's scores during this one's softmax
  /// 1: ping-pong scheduling of warpgroups: one computes its softmax during another's products. 2, in backward_sm90: a turn has
  /// all products of an iteration, and the warpgroups compute dQ of alternate iterations.
  std::int32_t pingpong = 0;
  std::int32_t speculative_max = 0;  ///< 1: subtracts the last maximum before this block's is known
  std::int32_t skip_masked = 0;      ///< 1: a warpgroup skips KV blocks that none of its own rows sees
  /// backward_sm80: 1: half of the warps own dV and half dK, of the same keys; 0: each warp owns both.
  std::int32_t split_gradients = 0;
  /// backward_sm90: 1: dQ of an iteration passes through shared memory, and another warp adds it in one bulk operation; 0: the warps
  /// that compute it add it.
  std::int32_t bulk_sums = 0;
  /// Warps, or on Hopper warpgroups, that share rows, and own columns of O. forward_wide: each computes the scores of its own keys.
  /// forward_wide_sm90: one computes all scores.
  std::int32_t column_warps = 1;
  /// 1: visits only the KV blocks of which the text of a mask shows something, by a map that the kernel key_map makes.
  std::int32_t key_map = 0;
  /// forward_sm90 and backward_sm90: 1: TMA brings tiles of the capture that has an element per score; 0: each lane reads its elements.
  std::int32_t score_tiles = 0;

  /// Calls field(name, value) for every tunable: all fields but `kernel`.
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& field) {
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
    field("split_gradients", self.split_gradients);
    field("bulk_sums", self.bulk_sums);
    field("column_warps", self.column_warps);
    field("key_map", self.key_map);
    field("score_tiles", self.score_tiles);
  }

  FA2_API friend bool operator==(const KernelConfig&, const KernelConfig&);
  friend bool operator!=(const KernelConfig& a, const KernelConfig& b) { return !(a == b); }
};

/// Returns "kernel=forward_sm80,tile_m=128,tile_n=64,warps=4,..." in field order: the kernel's own tunables, and others only
/// if they differ from KernelConfig{}.
FA2_API std::string to_string(const KernelConfig&);

/// Returns the config of `kernel` that computes every problem which the kernel computes at all; of backward_sm90 and
/// backward_ordered_sm90, those of head dims from 72 to 128.
FA2_API KernelConfig default_config(KernelId kernel);

/// The inverse of to_string. Fields left out are those of default_config() of the kernel that the text names, else of
/// forward_sm80. Throws InvalidRequest naming every unknown field or kernel, bad number and repeated field.
FA2_API KernelConfig parse_config(std::string_view);

}  // namespace fa2
