// A place where finished kernels are looked for: a cache directory or a pack.
#pragma once

#include <runtime/file.h>
#include <runtime/kernel_binary.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {

/// One kernel of a store, as `fa2 cache list|verify` and `fa2 pack list|verify` show it.
struct CacheEntry {
  std::filesystem::path path;    ///< its file; in a pack the pack's path, then the kernel's name
  KernelBinary binary;           ///< header fields; `code` only on request; empty if damaged
  std::uint64_t file_bytes = 0;  ///< size in the store, which a pack compresses; bytes
  std::int64_t last_used = 0;    ///< seconds since the epoch; 0 in a pack
  std::string damage;            ///< why the kernel cannot be used; empty if it can
  bool untrusted = false;  ///< true: intact, but other users could have written it; `path` may be a folder
  bool spared = false;     ///< true: the system refused to read it, or a later fa2 wrote it; prune() keeps it
};

/// Thread-safe. A store never throws for what it holds: anything damaged, foreign, stale or untrusted counts as missing, with one
/// warning.
class KernelStore {
 public:
  virtual ~KernelStore() = default;

  /// Returns the kernel, or nullopt on a miss. `untrusted` receives which file was not trusted, and what to do.
  virtual std::optional<KernelBinary> load(const std::string& arch, const std::string& key,
                                           std::string* untrusted = nullptr) const = 0;

  /// Returns the file that holds or would hold the kernel; in a pack with the kernel's name behind it.
  virtual std::filesystem::path path_of(const std::string& arch, const std::string& key) const = 0;

  /// Returns every kernel, ordered by path. Reads and checks all of them.
  virtual std::vector<CacheEntry> entries(bool with_code = false) const = 0;

  /// Returns the text of a file beside the kernels, such as tuning records; empty if there is none, or none that can be used.
  virtual std::string text(const std::string& name) const = 0;

  /// Returns its directory or file.
  virtual const std::filesystem::path& path() const = 0;

  /// Returns the path, with a note if nothing usable is there: a mistyped path should not look like an incomplete store.
  virtual std::string description() const = 0;
};

/// Says that this process compiles a kernel, until it is destroyed or its process ends. Advisory: nothing depends on it for
/// correctness.
class StoreLock {
 public:
  explicit StoreLock(FileDescriptor file = FileDescriptor()) : file_(std::move(file)) {}
  ~StoreLock();
  StoreLock(StoreLock&&) noexcept = default;
  StoreLock& operator=(StoreLock&&) = delete;

 private:
  FileDescriptor file_;  ///< none if there is no lock
};

/// A store that kernels are added to. Thread-safe.
class WritableStore : public KernelStore {
 public:
  /// Adds the kernel and returns whether it was stored. It never throws: what cannot be stored costs one warning.
  virtual bool store(const KernelBinary& binary) const = 0;

  /// Waits up to 10 s until no other process compiles `key`.
  virtual StoreLock lock(const std::string& arch, const std::string& key) const = 0;
};

/// Read-only stores, in search order.
using Stores = std::vector<std::shared_ptr<const KernelStore>>;

/// Returns the store at a path: a pack if its name ends in .fa2pack, else a cache directory. A pack that cannot be
/// opened costs one warning, and its store is empty.
std::shared_ptr<const KernelStore> open_store(const std::filesystem::path& path);

}  // namespace fa2
