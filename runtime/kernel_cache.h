// Finds or compiles the binary for rendered source. It looks in memory, read-only directories and packs, and
// the user's directory, then compiles.
#pragma once

#include <generator/kernel_source.h>
#include <runtime/compiler.h>
#include <runtime/kernel_store.h>

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
  std::string path;    ///< file it was read from or stored to; empty if in memory only
  double wait_ms = 0;  ///< duration of this get(); ms
  std::string notes;   ///< files that were not trusted, and what to do; mostly empty
};

/// Thread-safe. Threads that want the same kernel wait for one compilation; processes that share a directory
/// do, too.
class KernelCache {
 public:
  /// `user`: where compiled kernels are stored; may be nullptr (memory only). With JitMode::off, a miss throws Unavailable with the spec, the
  /// directories and packs searched, and the command that builds the kernel.
  KernelCache(std::shared_ptr<Compiler> compiler, Stores read_only, std::shared_ptr<const WritableStore> user,
              JitMode jit);

  /// Returns the kernel. @throws CompileError, Unavailable.
  /// A CompileError is remembered for this process: the next call rethrows it. A KernelRefused also goes to
  /// the user's directory, where later processes find it until the compiler or rules version changes. After
  /// other failures (no NVRTC, FA2_JIT=off) the next call tries again.
  /// `before_compiling` is called if no cache has the kernel and this thread compiles it.
  CachedKernel get(const KernelSource& source, const std::function<void()>& before_compiling = {});

  /// Returns where the binary would come from, without compiling or loading it; nullopt: it would be
  /// compiled.
  std::optional<KernelOrigin> find(const KernelSource& source) const;

  /// Returns KernelSource::spec of every cached kernel for `arch`, in search order. It reads every file, so
  /// it is for missing kernels only.
  std::vector<std::string> specs(std::string_view arch) const;

 private:
  struct Search;
  CachedKernel find_or_compile(const KernelSource& source, const std::function<void()>& before_compiling);
  std::optional<CachedKernel> look_up(const KernelSource& source, Search& search) const;
  bool stands(const KernelBinary& refusal, const Arch& arch) const;
  /// Returns a line for each read-only store that has this kernel from another version of fa2, whose code must not run.
  std::string other_versions(const KernelSource& source) const;
  KernelBinary compile(const KernelSource& source);

  std::shared_ptr<Compiler> compiler_;
  Stores read_only_;
  std::shared_ptr<const WritableStore> user_;
  JitMode jit_;
  /// The entries of the read-only stores, without code. Read at the first miss.
  mutable std::once_flag listed_;
  mutable std::vector<CacheEntry> listing_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_future<CachedKernel>> entries_;
};

}  // namespace fa2
