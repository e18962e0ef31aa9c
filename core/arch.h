// One row per GPU architecture: the facts that rendering, pruning and compiling need. No GPU is needed to
// read them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fa2 {

struct Arch {
  std::string_view name;            ///< NVRTC's target, suffix included: "sm_90a"
  std::int32_t compute_capability;  ///< major * 10 + minor
  bool exact_only;                  ///< an 'a' target: its cubins load on exactly this compute capability
  std::int32_t shared_per_block;    ///< opt-in limit, bytes
  std::int32_t shared_per_sm;       ///< bytes
  std::int32_t shared_reserved;     ///< bytes the driver takes per block
  std::int32_t registers_per_sm;
  std::int32_t threads_per_sm;
  std::int32_t blocks_per_sm;
  bool interpreted = false;  ///< no GPU: compiled by the host's compiler for the interpreter
};

/// Returns all GPU architectures, ascending by compute capability.
std::span<const Arch> known_archs();

/// Returns the interpreter, with the limits of an H100. known_archs() does not list it.
const Arch& interpreter_arch();

/// Returns nullptr if the name is unknown. "sm_90" finds sm_90a, "interpreter" the interpreter.
const Arch* find_arch(std::string_view name);

/// Returns the newest known arch whose cubins run on this GPU (same major, not newer); nullptr if there is none.
const Arch* arch_for_device(int major, int minor);

/// Returns "sm_80, sm_86, ..." for error messages.
std::string known_arch_names();

/// Returns resident blocks per SM, as limited by registers (allocated per warp in units of 256), shared memory and threads.
int resident_blocks(const Arch& arch, int threads, int registers, int shared_bytes);

}  // namespace fa2
