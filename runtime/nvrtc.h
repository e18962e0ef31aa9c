// NVRTC, opened at run time: a table of functions.
#pragma once

#include <nvrtc.h>
#include <runtime/shared_library.h>

#include <string>
#include <vector>

/// X(field, NVRTC function). Everything is there in NVRTC 11.2.
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

/// What is tried, in order: $FA2_NVRTC alone if it is set; else `directories`, the loader's search path, then
/// $CUDA_HOME/lib64, $CUDA_PATH/lib64 and /usr/local/cuda/lib64, version 13 before 12 in each.
std::vector<std::string> nvrtc_candidates(const std::vector<std::string>& directories = {});

/// The directories that nvrtc() looks into first, until it has opened one. Thread-safe.
void set_nvrtc_search(std::vector<std::string> directories);

/// An open NVRTC whose builtins library is loaded too. Immutable; its functions are thread-safe.
struct Nvrtc {
  /// @throws Unavailable listing what was tried and what to install.
  explicit Nvrtc(const std::vector<std::string>& candidates);

  SharedLibrary library;
  int major = 0;
  int minor = 0;
#define FA2_FIELD(field, name) decltype(&::name) field = nullptr;
  FA2_NVRTC_FUNCTIONS(FA2_FIELD)
#undef FA2_FIELD
};

/// Opened by the first call and never closed; a failure is tried again by the next call. @throws Unavailable.
const Nvrtc& nvrtc();

}  // namespace fa2
