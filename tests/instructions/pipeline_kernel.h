// A kernel that uses all of Hopper's instructions together.
#pragma once

#include "../support/small_kernel.h"

namespace fa2::test {

/// Returns a kernel that computes O = 2^(Q K^T) V, the skeleton of attention, for `tiles` x `blocks` tiles of
/// 128 x 128 and head dim 128. One block has a producer warp and two consumer warpgroups, S and O in flight
/// at once, a store through shared memory, and a dynamic scheduler.
inline SmallKernel pipelined_kernel() {
  const std::string body = R"(
  const SharedAddress q_tile = dynamic_shared(), slots = q_tile + 32768, bars = slots + 4 * 32768;
  const SharedAddress q_full = bars, q_empty = bars + 8, full = bars + 16, empty = bars + 48, ticket = bars + 80;
  if (thread_index() == 0) {
    mbarrier_init(q_full, 1);
    mbarrier_init(q_empty, 8);
    for (int i = 0; i < 4; ++i) {
      mbarrier_init(full + 8 * i, 1);
      mbarrier_init(empty + 8 * i, 8);
    }
    fence_mbarrier_init();
  }
  bar_sync();
  const int blocks = shfl_idx(p.blocks, 0);
  if (warpgroup_index() == 0) {
    setmaxnreg_dec<24>();
    if (warp_index() == 0) {
      int slot = 0;
      u32 phase = 1;
      for (int tile = static_cast<int>(block_index()), turn = 0; tile < p.tiles; ++turn) {
        mbarrier_wait(q_empty, (turn & 1) ^ 1);
        if (elect_one()) {
          st_shared_u32(ticket, static_cast<u32>(tile));
          mbarrier_arrive_expect_tx(q_full, 32768);
          tma_load(q_tile, p.q, {{0, 128 * tile, 0, 0, 0}}, q_full, kEvictFirst);
        }
        for (int n = 0; n < 2 * blocks; ++n) {
          mbarrier_wait(empty + 8 * slot, phase);
          if (elect_one()) {
            mbarrier_arrive_expect_tx(full + 8 * slot, 32768);
            tma_load(slots + 32768 * slot, n % 2 == 0 ? p.k : p.v, {{0, n / 2 * 128, 0, 0, 0}}, full + 8 * slot, kEvictLast);
          }
          if (++slot == 4) slot = 0, phase ^= 1;
        }
        tile = shfl_idx(lane_index() == 0 ? static_cast<int>(p.grid + atom_inc_global_u32(p.counter, p.tiles - 1)) : 0, 0);
      }
    }
  } else {
    setmaxnreg_inc<240>();
    const int group = warpgroup_index() - 1;
    const MatrixDescriptor q = matrix_descriptor<Swizzle::span128>(q_tile + 8192 * group, 16, 1024);
    float s[64], o[64];
    u32 weights[8][4];
    int slot = 0;
    u32 phase = 0;
    for (int turn = 0; turn < p.tiles; ++turn) {
      mbarrier_wait(q_full, turn & 1);
      const int tile = static_cast<int>(ld_shared_u32(ticket));
      FA2_UNROLL
      for (int i = 0; i < 64; ++i) o[i] = 0.0f;
      for (int n = 0; n < blocks; ++n) {
        const MatrixDescriptor k = matrix_descriptor<Swizzle::span128>(slots + 32768 * slot, 16, 1024);
        mbarrier_wait(full + 8 * slot, phase);
        hold_registers(s);
        wgmma_fence();
        wgmma_ss<Half, 128, Major::k, Major::k>(s, q, k);
        FA2_UNROLL
        for (int step = 1; step < 8; ++step) {
          const u32 bytes = step / 4 * 16384 + step % 4 * 32;
          wgmma_ss<Half, 128, Major::k, Major::k>(s, q.advanced(bytes), k.advanced(bytes), true);
        }
        wgmma_commit_group();
        wgmma_wait_group<0>();
        hold_registers(s);
        if (elect_one()) mbarrier_arrive(empty + 8 * slot);
        if (++slot == 4) slot = 0, phase ^= 1;
        FA2_UNROLL
        for (int i = 0; i < 32; ++i) weights[i / 4][i % 4] = cvt_rn_x2<Half>(ex2_approx(s[2 * i]), ex2_approx(s[2 * i + 1]));
        const MatrixDescriptor v = matrix_descriptor<Swizzle::span128>(slots + 32768 * slot, 16384, 1024);
        mbarrier_wait(full + 8 * slot, phase);
        FA2_UNROLL
        for (int step = 0; step < 8; ++step) hold_registers(weights[step]);
        hold_registers(o);
        wgmma_fence();
        FA2_UNROLL
        for (int step = 0; step < 8; ++step)
          wgmma_rs<Half, 128, Major::mn>(o, weights[step], v.advanced(2048 * step), true);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        hold_registers(o);
        if (elect_one()) mbarrier_arrive(empty + 8 * slot);
        if (++slot == 4) slot = 0, phase ^= 1;
      }
      bar_sync(1 + group, 128);
      FA2_UNROLL
      for (int i = 0; i < 8; ++i) {
        const int row = thread_index() % 128 / 32 * 16 + lane_index() % 16, chunk = i % 4 * 2 + lane_index() / 16;
        const u32 pairs[4] = {cvt_rn_x2<Half>(o[8 * i], o[8 * i + 1]), cvt_rn_x2<Half>(o[8 * i + 2], o[8 * i + 3]),
                              cvt_rn_x2<Half>(o[8 * i + 4], o[8 * i + 5]), cvt_rn_x2<Half>(o[8 * i + 6], o[8 * i + 7])};
        stmatrix_x4(q_tile + 8192 * group + i / 4 * 16384 + row * 128 + ((chunk ^ (row & 7)) << 4), pairs);
      }
      fence_proxy_async_shared();
      bar_sync(1 + group, 128);
      if (thread_index() % 128 == 0) {
        tma_store(p.o, {{0, 128 * tile + 64 * group, 0, 0, 0}}, q_tile + 8192 * group);
        tma_store(p.o, {{0, 128 * tile + 64 * group, 1, 0, 0}}, q_tile + 8192 * group + 16384);
        bulk_commit_group();
        bulk_wait_group_read<0>();
      }
      bar_sync(1 + group, 128);
      if (elect_one()) mbarrier_arrive(q_empty);
    }
  })";
  SmallKernel kernel{
      body,
      "TensorMap q; TensorMap k; TensorMap v; TensorMap o; u32* counter; int grid; int tiles; int blocks;",
      384, 5 * 32768 + 128};
  kernel.wgmma_shapes = {{DType::f16, 128, WgmmaOperand::k_major, WgmmaOperand::k_major},
                         {DType::f16, 128, WgmmaOperand::registers, WgmmaOperand::mn_major}};
  return kernel;
}

}  // namespace fa2::test
