// A kernel that measures its SM's clock: cycles of the SM per nanosecond of the global timer.
#pragma once

#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_source.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace fa2::bench {

/// Device memory; sums over launches.
struct ClockSums {
  std::uint64_t start_cycles = 0, start_ns = 0;  ///< of the latest launch
  std::uint64_t cycles = 0, ns = 0;
};

/// Returns `source` with a measurement: thread `thread` of block 0 adds its time from the kernel's first
/// statement to its last to `sums`. It keeps nothing in registers. The key stays that of `source`, so the
/// result must not go into a cache.
inline KernelSource clocked(KernelSource source, int thread, const void* sums) {
  constexpr std::string_view kBegin = "params) {\n", kEnd = "\n}";
  std::string& text = source.main.text;
  const std::size_t begin = text.find(kBegin), end = text.rfind(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw Error(ErrorCode::internal, source.main.name + " has no kernel body to put clock readings into");
  text.insert(end + 1, "  add_clock();\n");
  text.insert(begin + kBegin.size(), "  start_clock();\n");
  text.insert(0, fmt::format(R"(namespace {{
__device__ __forceinline__ volatile unsigned long long* clock_sums() {{
  return reinterpret_cast<volatile unsigned long long*>(0x{:x}ull);
}}
__device__ __forceinline__ bool keeps_time() {{ return blockIdx.x == 0 && threadIdx.x == {}; }}
__device__ __forceinline__ unsigned long long nanoseconds() {{
  unsigned long long ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}}
__device__ __forceinline__ void start_clock() {{
  if (keeps_time()) {{
    const unsigned long long cycles = clock64(), ns = nanoseconds();
    clock_sums()[0] = cycles;
    clock_sums()[1] = ns;
  }}
  __syncwarp();
}}
__device__ __forceinline__ void add_clock() {{
  if (!keeps_time()) return;
  const unsigned long long cycles = clock64(), ns = nanoseconds();
  clock_sums()[2] += cycles - clock_sums()[0];
  clock_sums()[3] += ns - clock_sums()[1];
}}
}}  // namespace
)",
                             reinterpret_cast<std::uintptr_t>(sums), thread));
  source.spec += ", clocked";
  return source;
}

/// Returns the first thread that computes instead of loading.
inline int first_computing_thread(const KernelConfig& config) {
  return kind_of(config).threads(config) - config.warps * 32;
}

}  // namespace fa2::bench
