// Broken kernels over Hopper's instructions, and their mended twins.
#pragma once

#include <string>
#include <vector>

namespace fa2::test {

/// The kernel's parameter: Params of hopper_case.cpp.
///   map: 64 x 64 f16 of `in` in boxes of 64 x 8 (1024 bytes), 128-byte swizzle; out_map: the same of `out`; early_map:
///   128 x 64, whose first 64 rows lie before `in`
///   counter: one u32, and sums: 2048 float32, both 0 and for the kernel to read and to write
///   input: `in` again, as what it may not write
struct HopperCase {
  std::string rule;
  std::string broken;
  std::string mended;
  /// One of them stands in the message, whatever completes when and in whatever order warps run.
  std::vector<std::string> messages;
  int threads = 64;
};

/// Runs each, broken and mended, early and late, with seeds 0 and 1: the broken one must be stopped with one
/// of the messages, the mended one must end.
void check_cases(const std::vector<HopperCase>& cases);

/// Initialises `bar`, an mbarrier of one arrival, for all threads. One line.
inline const std::string kInit =
    "const SharedAddress bar = dynamic_shared() + 8192; if (thread_index() == 0) { mbarrier_init(bar, 1); "
    "fence_mbarrier_init(); } bar_sync();\n";

}  // namespace fa2::test
