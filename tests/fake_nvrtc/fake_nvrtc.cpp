// An NVRTC that takes no time: it turns every program into the same kernel without instructions. It reports
// version 0.0 and rejects --no-cache, as every version before 12.9 does.
#include <nvrtc.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace {

constexpr char kLog[] =
    "ptxas info    : Compiling entry function 'fa2_attention_forward' for 'sm_80'\n"
    "ptxas info    : Used 100 registers\n"
    "ptxas info    : Compiling entry function 'fa2_append' for 'sm_80'\n"
    "ptxas info    : Used 30 registers\n"
    "ptxas info    : Compiling entry function 'fa2_merge' for 'sm_80'\n"
    "ptxas info    : Used 40 registers\n";
constexpr char kCubin[64] =
    "\x7f"
    "ELF";  // an ELF header without sections
int program;

}  // namespace

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = *minor = 0;
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult) {
  return "no error";
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* made, const char*, const char*, int, const char* const*,
                               const char* const*) {
  *made = reinterpret_cast<nvrtcProgram>(&program);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram*) {
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram, int count, const char* const* options) {
  const bool knows_all =
      std::find(options, options + count, std::string_view("--no-cache")) == options + count;
  return knows_all ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_OPTION;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t* size) {
  *size = sizeof kLog;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char* log) {
  std::memcpy(log, kLog, sizeof kLog);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram, size_t* size) {
  *size = 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram, char* ptx) {
  *ptx = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t* size) {
  *size = sizeof kCubin;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char* cubin) {
  std::memcpy(cubin, kCubin, sizeof kCubin);
  return NVRTC_SUCCESS;
}
