// Finds and opens libnccl.
#include <fa2/errors.h>
#include <fa2/nccl_communicator.h>
#include <fmt/format.h>
#include <runtime/env.h>
#include <runtime/nccl.h>

#include <utility>

namespace fa2 {
namespace {

constexpr const char* kNcclName = "libnccl.so.2";
constexpr int kOldestNccl = 21800;

constexpr const char* kInstallNccl =
    "NCCL moves data between GPUs. Install it (NVIDIA's libnccl2 package, or `pip install "
    "nvidia-nccl-cu13`), or "
    "set FA2_NCCL to the path of libnccl.so.2.";

SearchPath& nccl_search() {
  static SearchPath& only = *new SearchPath;
  return only;
}

/// Returns the version; 0 if the library does not say.
int nccl_version_of(const SharedLibrary& library) {
  const auto get = reinterpret_cast<NcclResult (*)(int*)>(library.find("ncclGetVersion"));
  int version = 0;
  return get != nullptr && get(&version) == kNcclSuccess ? version : 0;
}

}  // namespace

SharedLibrary open_nccl(const std::vector<std::string>& directories) {
  std::vector<std::string> candidates;
  if (const auto path = env("FA2_NCCL")) {
    candidates = {*path};
  } else {
    if (auto loaded = SharedLibrary::find_loaded(kNcclName)) return std::move(*loaded);
    for (const std::string& directory : directories) candidates.push_back(directory + "/" + kNcclName);
    candidates.emplace_back(kNcclName);
  }
  return SharedLibrary::open_first(candidates, "NCCL (libnccl, NVIDIA's communication library)",
                                   kInstallNccl);
}

Nccl::Nccl(SharedLibrary opened) : library(std::move(opened)), version(nccl_version_of(library)) {
  if (version < kOldestNccl)
    throw Unavailable(fmt::format("{} has version {}, must be at least {} (2.18): install a newer NCCL",
                                  library.path(), version, kOldestNccl));
#define FA2_LOAD(field, name, type)                               \
  field = reinterpret_cast<decltype(field)>(library.find(#name)); \
  if (field == nullptr) throw Unavailable(library.path() + " has no " #name ": fa2 cannot use this NCCL");
  FA2_NCCL_FUNCTIONS(FA2_LOAD)
#undef FA2_LOAD
}

void set_nccl_search(std::vector<std::string> directories) {
  nccl_search().set(std::move(directories));
}

const Nccl& nccl() {
  static const Nccl& opened = *new Nccl(open_nccl(nccl_search().get()));
  return opened;
}

}  // namespace fa2
