// The table of environment variables, and the only getenv.
#include <fa2/errors.h>
#include <runtime/env.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace fa2 {
namespace {

constexpr EnvVariable kVariables[] = {
    {"FA2_CACHE_DIR", "$XDG_CACHE_HOME/fa2, else $HOME/.cache/fa2",
     "directory that compiled kernels are written to"},
    {"FA2_CACHE_PATH", "", "read-only cache directories, ':' separated, searched first"},
    {"FA2_CACHE_MAX_MB", "512", "size in MB beyond which the least recently used kernels are removed"},
    {"FA2_CACHE_TRUST", "0",
     "0|host|1; host: interpreted kernels, code for this CPU, also from FA2_CACHE_PATH; 1: caches that "
     "others could write"},
    {"FA2_JIT", "on", "on|off; off: a kernel that no cache holds is an error, never a compilation"},
    {"FA2_TUNE", "search",
     "off|stored|search: heuristic only, stored records, or measure what has no record"},
    {"FA2_TUNE_BUDGET_MS", "3000", "time one search may take, in milliseconds"},
    {"FA2_CONFIG", "", "pins every kernel's configuration: tile_m=128,tile_n=64,..."},
    {"FA2_NVRTC", "", "path of libnvrtc; when set, no other one is tried"},
    {"FA2_DEVICE", "auto", "auto|interpreter; auto: the current GPU, the interpreter where there is none"},
    {"FA2_INTERPRETER", "early,checked", "early|late, checked|unchecked, seed=N, separated by ','"},
    {"FA2_CXX", "c++, g++, clang++", "C++ compiler of interpreted kernels"},
    {"FA2_KEEP_SOURCE", "", "directory where the sources of interpreted kernels are left for a debugger"},
    {"FA2_LOG", "warn", "trace|debug|info|warn|error|critical|off, to stderr"},
};

constexpr std::string_view kSystemVariables[] = {"XDG_CACHE_HOME", "HOME", "CUDA_HOME", "CUDA_PATH"};

bool is_known(std::string_view name) {
  return std::any_of(std::begin(kVariables), std::end(kVariables),
                     [&](const EnvVariable& variable) { return variable.name == name; }) ||
         std::find(std::begin(kSystemVariables), std::end(kSystemVariables), name) !=
             std::end(kSystemVariables);
}

}  // namespace

std::span<const EnvVariable> environment() {
  return kVariables;
}

std::optional<std::string> env(std::string_view name) {
  const std::string text(name);
  if (!is_known(name))
    throw Error(ErrorCode::internal, "env(\"" + text + "\"): not in the table of variables");
  const char* value = std::getenv(text.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace fa2
