// Rendered source in, binary out: memory, then read-only directories, then the user's directory, then the
// compiler.
#pragma once

#include <generator/kernel_source.h>
#include <runtime/compiler.h>
#include <runtime/disk_cache.h>

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fa2 {

struct CachedKernel {
  std::shared_ptr<const KernelBinary> binary;
  KernelOrigin origin = KernelOrigin::memory;
  std::string path;    ///< file it was read from or stored to; empty if memory only
  double wait_ms = 0;  ///< time this get() took
  std::string notes;   ///< what was not used for want of trust, and what mends it; mostly empty
};

/// Thread-safe. Threads that want the same kernel at once wait for one compilation; so do processes that
/// share a directory.
class KernelCache {
 public:
  /// `user` may be nullptr (memory only). `jit_off`: a miss throws Unavailable naming the spec, the
  /// directories searched and the command that builds it.
  KernelCache(std::shared_ptr<Compiler> compiler, std::vector<DiskCache> read_only,
              std::shared_ptr<DiskCache> user, JitMode jit);

  /// @throws CompileError, Unavailable. A CompileError is remembered for this process: asking again rethrows
  /// without compiling; a KernelRefused by the user's directory too, for later processes, until another
  /// compiler or other rules may judge. Other failures (no NVRTC, FA2_JIT=off) are tried again by the next call.
  CachedKernel get(const KernelSource& source);

  /// Where the binary would come from, without compiling or loading it; nullopt: it would be compiled.
  std::optional<KernelOrigin> find(const KernelSource& source) const;

  /// KernelSource::spec of every kernel that the directories hold for `arch`, in the order they are searched.
  /// Reads every file: for when a kernel is missing.
  std::vector<std::string> specs(std::string_view arch) const;

 private:
  struct Search;
  CachedKernel find_or_compile(const KernelSource& source);
  std::optional<CachedKernel> look_up(const KernelSource& source, Search& search) const;
  bool stands(const KernelBinary& refusal, const Arch& arch) const;
  KernelBinary compile(const KernelSource& source);

  std::shared_ptr<Compiler> compiler_;
  std::vector<DiskCache> read_only_;
  std::shared_ptr<DiskCache> user_;
  JitMode jit_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_future<CachedKernel>> entries_;
};

}  // namespace fa2
