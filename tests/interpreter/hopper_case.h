// Broken kernels that use Hopper's instructions, and their mended forms.
#pragma once

#include <string>
#include <vector>

namespace fa2::test {

/// The kernel's parameter is Params of hopper_case.cpp. map: 64 x 64 f16 of `in` in boxes of 64 x 8 (1024
/// bytes), with 128-byte swizzle; out_map: the same of `out`; early_map: 128 x 64, of which the first 64 rows
/// lie before `in`. counter: one u32; sums: 2048 float32; both are 0, and the kernel may read and write them.
/// input: `in` again, which the kernel may not write.
struct HopperCase {
  std::string rule;
  std::string broken;
  std::string mended;
  /// The fault's message must contain one of these, whenever copies complete and in whatever order warps run.
  std::vector<std::string> messages;
  int threads = 64;
  int blocks = 1;
  int cluster = 1;
};

/// Runs each case broken and mended, early and late, with seeds 0 and 1. The broken kernel must stop with one
/// of the messages; the mended one must end.
void check_cases(const std::vector<HopperCase>& cases);

/// Initialises `bar`, an mbarrier of one arrival, for all threads. Takes one line.
inline const std::string kInit =
    "const SharedAddress bar = dynamic_shared() + 8192; if (thread_index() == 0) { mbarrier_init(bar, 1); "
    "fence_mbarrier_init(); } bar_sync();\n";

}  // namespace fa2::test
