// NVRTC, opened at run time: a table of its functions.
#pragma once

#include <nvrtc.h>
#include <runtime/shared_library.h>

#include <string>
#include <vector>

/// X(field, NVRTC function). NVRTC 11.2 has all of them.
#define FA2_NVRTC_FUNCTIONS(X)             \
  X(get_error_string, nvrtcGetErrorString) \
  X(get_version, nvrtcVersion)             \
  X(create_program, nvrtcCreateProgram)    \
  X(destroy_program, nvrtcDestroyProgram)  \
  X(compile_program, nvrtcCompileProgram)  \
  X(get_log_size, nvrtcGetProgramLogSize)  \
  X(get_log, nvrtcGetProgramLog)           \
  X(get_ptx_size, nvrtcGetPTXSize)         \
  X(get_ptx, nvrtcGetPTX)                  \
  X(get_cubin_size, nvrtcGetCUBINSize)     \
  X(get_cubin, nvrtcGetCUBIN)

namespace fa2 {

/// Returns the paths to try, in order. If $FA2_NVRTC is set, it is the only one. Otherwise: `directories`,
/// the loader's search path, $CUDA_HOME/lib64, $CUDA_PATH/lib64 and /usr/local/cuda/lib64; in each, version
/// 13 before 12.
std::vector<std::string> nvrtc_candidates(const std::vector<std::string>& directories = {});

/// Sets the directories that nvrtc() searches first. No effect once NVRTC is open. Thread-safe.
void set_nvrtc_search(std::vector<std::string> directories);

/// An open NVRTC with its builtins library loaded. Immutable; its functions are thread-safe.
struct Nvrtc {
  /// @throws Unavailable that lists what was tried and what to install.
  explicit Nvrtc(const std::vector<std::string>& candidates);

  SharedLibrary library;
  int major = 0;
  int minor = 0;
#define FA2_FIELD(field, name) decltype(&::name) field = nullptr;
  FA2_NVRTC_FUNCTIONS(FA2_FIELD)
#undef FA2_FIELD
  /// nvrtcSetFlowCallback; null before CUDA 12.9.
  nvrtcResult (*set_flow_callback)(nvrtcProgram program, int (*callback)(void*, void*), void* data) = nullptr;
};

/// Returns NVRTC. The first call opens it, and it is never closed. After a failure the next call tries again.
/// @throws Unavailable.
const Nvrtc& nvrtc();

}  // namespace fa2
