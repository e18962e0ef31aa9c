// Reports of kernels and plans.
#pragma once

#include <fa2/config.h>
#include <fa2/plan_options.h>
#include <fa2/problem.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

/// Where a kernel's binary came from.
enum class KernelOrigin : std::uint8_t { memory, read_only_cache, disk_cache, compiled };
/// Who chose a configuration. The `tuned_*` values say how well the tuning record matched. `fallback`: nothing may be compiled,
/// no cache holds the chosen kernel, and the most similar cached kernel runs.
enum class ConfigOrigin : std::uint8_t {
  pinned,
  tuned_now,
  tuned_exact,
  tuned_nearest,
  tuned_other_device,
  heuristic,
  fallback
};

FA2_API std::string_view to_string(KernelOrigin);
FA2_API std::string_view to_string(ConfigOrigin);

/// The resources of one kernel, as ptxas reported them.
struct KernelResources {
  std::int32_t registers = 0;             ///< per thread
  std::int32_t spill_store_bytes = 0;     ///< per thread; fa2 refuses kernels that spill
  std::int32_t spill_load_bytes = 0;      ///< per thread
  std::int32_t stack_bytes = 0;           ///< per thread
  std::int32_t static_shared_bytes = 0;   ///< per block
  std::int32_t dynamic_shared_bytes = 0;  ///< per block
  std::int32_t threads = 0;               ///< per block
};

/// One part of a kernel's key, as `fa2 explain` prints it.
struct KeyPart {
  std::string name;
  std::string value;
};

/// One kernel that a plan launches, and why this one.
struct KernelReport {
  KernelConfig config;
  ConfigOrigin config_origin = ConfigOrigin::heuristic;
  std::string config_reason;  ///< one sentence
  std::string key;            ///< 32 hex digits
  std::vector<KeyPart> key_parts;
  KernelOrigin origin = KernelOrigin::memory;
  std::string path;      ///< cache file; empty if the binary is in memory only
  std::string compiler;  ///< "nvrtc 13.0"
  double compile_ms =
      0;  ///< duration of the compilation that made the binary, in this process or an earlier one
  double load_ms = 0;  ///< duration of reading (or compiling) and loading in this process
  std::size_t binary_bytes = 0;
  KernelResources resources;
  std::int32_t blocks_per_sm = 0;  ///< resident blocks per SM, as registers, shared memory and threads permit
  /// Whether blocks take tile after tile, so that a launch has at most as many as the device runs at once. AttentionProblem::sm_margin
  /// limits such kernels alone.
  bool is_persistent = false;
  /// Query heads of one key/value head whose rows share tiles, which then read keys and values once for all of them.
  std::int32_t heads_per_tile = 1;
};

/// The kernels that run for a problem, with the reasons.
struct Explanation {
  AttentionProblem problem;
  PlanOptions options;                ///< what every call of the plan must satisfy
  std::string arch;                   ///< "sm_90a"
  std::string device;                 ///< device name; empty if an arch was asked for
  std::vector<KernelReport> kernels;  ///< in launch order; a forward has one
  std::string notes;                  ///< every deviation from the default path, with its reason; empty: none
};

/// One kernel that precompile() made.
struct PrecompiledKernel {
  AttentionProblem problem;
  PlanOptions options;  ///< of the plans that need the kernel
  std::string arch;
  std::string key;
  KernelConfig config;
  std::string config_reason;  ///< one sentence
  KernelResources resources;
  std::size_t binary_bytes = 0;
  double compile_ms = 0;
  KernelOrigin origin = KernelOrigin::compiled;
  std::string error;  ///< empty if the kernel is in the cache now
};

}  // namespace fa2
