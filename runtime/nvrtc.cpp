// Finds and opens libnvrtc.
#include <dlfcn.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/env.h>
#include <runtime/log.h>
#include <runtime/nvrtc.h>

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace fa2 {
namespace {

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

constexpr const char* kAdvice =
    "NVRTC compiles kernels that no cache holds. Install it (NVIDIA's cuda-nvrtc package, or `pip install "
    "nvidia-cuda-nvrtc`), set FA2_NVRTC to the path of libnvrtc.so, or point FA2_CACHE_PATH at a precompiled "
    "cache "
    "(`fa2 precompile`).";

/// Opens libnvrtc's builtins by path. libnvrtc looks for them on the loader's search path, not in its own
/// folder.
void open_builtins(const Nvrtc& nvrtc) {
  namespace fs = std::filesystem;
  const std::string name = fmt::format("libnvrtc-builtins.so.{}.{}", nvrtc.major, nvrtc.minor);
  const fs::path opened = nvrtc.library.path();
  std::error_code error;
  const fs::path target = fs::canonical(opened, error);
  for (const fs::path& folder : {opened.parent_path(), target.parent_path()}) {
    const fs::path builtins = folder / name;
    if (folder.empty() || !fs::exists(builtins, error)) continue;
    if (dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;  // stays open, like libnvrtc
    log().warn("{} could not be opened: {}", builtins.string(), dlerror());
  }
}

/// Directories to search first.
SearchPath& nvrtc_search() {
  static SearchPath& only = *new SearchPath;
  return only;
}

}  // namespace

std::vector<std::string> nvrtc_candidates(const std::vector<std::string>& directories) {
  if (const auto path = env("FA2_NVRTC")) return {*path};
  std::vector<std::string> folders = directories;
  folders.push_back("");  // the loader's search path
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const auto home = env(variable)) folders.push_back(*home + "/lib64");
  }
  folders.push_back("/usr/local/cuda/lib64");
  std::vector<std::string> candidates;
  std::set<std::string> seen;
  for (const std::string& folder : folders) {
    if (!seen.insert(folder).second) continue;
    for (const char* name : kNames) candidates.push_back(folder.empty() ? name : folder + "/" + name);
  }
  return candidates;
}

Nvrtc::Nvrtc(const std::vector<std::string>& candidates)
    : library(SharedLibrary::open_first(candidates, "NVRTC (libnvrtc, CUDA's run-time compiler)", kAdvice)) {
#define FA2_LOAD(field, name)                                     \
  field = reinterpret_cast<decltype(field)>(library.find(#name)); \
  if (field == nullptr) throw Unavailable(library.path() + " has no " #name ": fa2 cannot use this NVRTC");
  FA2_NVRTC_FUNCTIONS(FA2_LOAD)
#undef FA2_LOAD
  set_flow_callback = reinterpret_cast<decltype(set_flow_callback)>(library.find("nvrtcSetFlowCallback"));
  get_version(&major, &minor);
  open_builtins(*this);
}

void set_nvrtc_search(std::vector<std::string> directories) {
  nvrtc_search().set(std::move(directories));
}

const Nvrtc& nvrtc() {
  static const Nvrtc& opened = *new Nvrtc(nvrtc_candidates(nvrtc_search().get()));
  return opened;
}

}  // namespace fa2
