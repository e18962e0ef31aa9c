// Configs of the kernels on mma.sync.
#pragma once

#include <core/arch.h>
#include <generator/kernel_kind.h>

#include <algorithm>
#include <string>
#include <vector>

namespace fa2::test {

/// forward_sm80 and forward_split, for tests of every variant, length or page size. There are seven, because
/// the other choices that change from case to case have other counts.
inline const std::vector<std::string> kMmaConfigs = {
    "kernel=forward_sm80,tile_m=64,tile_n=32,warps=4,stages=1",
    "kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2",
    "kernel=forward_sm80,tile_m=64,tile_n=48,warps=4,stages=3,q_in_registers=1",
    "kernel=forward_split,tile_m=16,tile_n=32,warps=4,stages=2,q_in_registers=1",
    "kernel=forward_split,tile_m=32,tile_n=16,warps=3,stages=3",
    "kernel=forward_split,tile_m=16,tile_n=16,warps=8,stages=2",
    "kernel=forward_split,tile_m=16,tile_n=64,warps=1,stages=2"};

/// Returns the default config of the kernel that computes `pass` on every GPU.
inline KernelConfig config_on_every_gpu(KernelPass pass) {
  const Arch& oldest = *find_arch("sm_80");
  return (*std::ranges::find_if(
              kernel_kinds(),
              [&](const KernelKind* kind) { return kind->pass == pass && kind->runs_on(oldest); }))
      ->default_config;
}

}  // namespace fa2::test
