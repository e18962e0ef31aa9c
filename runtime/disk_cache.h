// Compiled kernels on disk: one self-contained, checksummed file each, published by rename.
#pragma once

#include <runtime/kernel_binary.h>
#include <runtime/trust.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fa2 {

/// $FA2_CACHE_DIR, else $XDG_CACHE_HOME/fa2, else $HOME/.cache/fa2; nullopt if none of them is set.
std::optional<std::filesystem::path> default_cache_dir();

/// One file of a cache directory, as `fa2 cache list|verify` show it.
struct CacheEntry {
  std::filesystem::path path;
  KernelBinary binary;  ///< header fields always, `code` only when asked for; empty if damaged
  std::uint64_t file_bytes = 0;
  std::int64_t last_used = 0;  ///< seconds since the epoch
  std::string damage;          ///< why the file cannot be used; empty for a good one
  bool untrusted = false;  ///< it is not damaged, but others could have written it; `path` may be a folder
};

/// One cache directory. Thread-safe; any number of processes may share it.
/// File: v1/<arch>/<key[0:2]>/<key>.fa2k. See docs/rooms/runtime.md for the byte layout.
class DiskCache {
 public:
  enum class Access { read_only, read_write };

  /// A read-write directory is created 0700 on first store(). Of either, nothing is read or written through a
  /// folder that others could have written (runtime/trust.h), with one warning.
  DiskCache(std::filesystem::path root, Access access);

  /// The binary, or nullopt on a miss. A damaged, truncated, foreign, stale or untrusted file is a miss; in a
  /// read-write directory it is removed, with one warning. So is, in a read-only one, code for this CPU unless
  /// FA2_CACHE_TRUST grants it. `untrusted` becomes what was not used for want of trust, with what mends it.
  std::optional<KernelBinary> load(const std::string& arch, const std::string& key,
                                   std::string* untrusted = nullptr) const;

  /// Publishes atomically (temp file, fsync, rename). A full or unwritable disk costs only the caching: one
  /// warning. Returns whether the file is there.
  bool store(const KernelBinary& binary) const;

  std::filesystem::path path_of(const std::string& arch, const std::string& key) const;
  const std::filesystem::path& root() const { return root_; }

  std::vector<CacheEntry> entries(bool with_code = false) const;

  /// Removes damaged files, then least recently used ones until at most `max_bytes` remain, and stale temp
  /// files (older than an hour) and lock files nobody holds. Returns how many files and bytes went; nothing
  /// in a read-only directory.
  struct Pruned {
    std::size_t files = 0;
    std::uint64_t bytes = 0;
  };
  Pruned prune(std::uint64_t max_bytes) const;

  /// Waits until no other process compiles `key`, or for 10 s at most; an advisory lock that dies with its
  /// owner. Holding it or not never decides correctness.
  class Lock {
   public:
    ~Lock();
    Lock(Lock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    Lock& operator=(Lock&&) = delete;

   private:
    friend class DiskCache;
    explicit Lock(int fd) : fd_(fd) {}
    int fd_;
  };
  Lock lock(const std::string& arch, const std::string& key) const;

 private:
  /// Warns once. Returns what it says.
  std::string warn_of(const Untrusted& error) const;
  /// Makes a folder to write to, named from the root on; false, after one warning, if that cannot be.
  bool prepare(const std::filesystem::path& below) const;
  /// prune() without reading a file.
  Pruned shrink(std::uint64_t max_bytes) const;

  std::filesystem::path root_;
  Access access_;
};

/// FA2_CACHE_MAX_MB. @throws InvalidRequest.
std::uint64_t max_cache_bytes();

/// Whether the entries of this arch are code for this CPU, which a program that reads them runs itself.
bool is_host_code(const std::string& arch);

/// The byte layout, exposed for tests of damage.
std::vector<std::byte> encode_entry(const KernelBinary& binary);
/// @throws CacheError saying what is wrong with the bytes.
KernelBinary decode_entry(const std::vector<std::byte>& bytes, bool with_code = true);

}  // namespace fa2
