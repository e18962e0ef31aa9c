// A cache of compiled kernels on disk. Each file is self-contained, has a checksum, and is published by a
// rename.
#pragma once

#include <runtime/kernel_store.h>
#include <runtime/trust.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fa2 {

/// Returns $FA2_CACHE_DIR, else $XDG_CACHE_HOME/fa2, else $HOME/.cache/fa2; nullopt if none is set.
std::optional<std::filesystem::path> default_cache_dir();

/// The folder of a cache directory that holds kernels of this format.
inline constexpr const char* kKernelFolder = "v2";

/// One cache directory. Thread-safe; any number of processes may share it.
/// File: v2/<arch>/<key[0:2]>/<key>.fa2k. docs/rooms/runtime.md describes the byte layout.
class DiskCache final : public WritableStore {
 public:
  enum class Access { read_only, read_write };

  /// Logs at info once if there is an outdated_folder().
  /// The first store() creates a read-write directory, mode 0700. Neither kind uses a folder that other users
  /// could have written (runtime/trust.h); it warns once.
  DiskCache(std::filesystem::path root, Access access);

  /// A read-write directory also removes a file that cannot be used. A read-only one does not use code for
  /// this CPU unless FA2_CACHE_TRUST allows it.
  std::optional<KernelBinary> load(const std::string& arch, const std::string& key,
                                   std::string* untrusted = nullptr) const override;

  /// Publishes atomically: temporary file, fsync, rename. Returns whether the file was stored. If the disk
  /// refuses it, the kernel is not cached, and fa2 warns once.
  bool store(const KernelBinary& binary) const override;

  std::filesystem::path path_of(const std::string& arch, const std::string& key) const override;
  std::vector<CacheEntry> entries(bool with_code = false) const override;
  std::string text(const std::string& name) const override;
  std::string description() const override;
  const std::filesystem::path& path() const override { return root_; }
  const std::filesystem::path& root() const { return root_; }

  /// Returns the folder with kernels of an older format, which are not used; nullopt if there is none.
  std::optional<std::filesystem::path> outdated_folder() const;

  /// Removes damaged files, but none that the system refuses to read or a later fa2 wrote. Then removes the least recently used ones until at most `max_bytes` remain. Also removes
  /// temporary files older than an hour, and lock files that no process holds. Returns the number of files
  /// and bytes removed; a read-only directory keeps all.
  struct Pruned {
    std::size_t files = 0;
    std::uint64_t bytes = 0;
  };
  Pruned prune(std::uint64_t max_bytes) const;

  StoreLock lock(const std::string& arch, const std::string& key) const override;

 private:
  /// Warns once. Returns the warning.
  std::string warn_of(const Untrusted& error) const;
  /// Creates a folder to write to; `below` is relative to the root. Returns false, after one warning, if it
  /// cannot.
  bool prepare(const std::filesystem::path& below) const;
  /// Prunes without reading any file.
  Pruned shrink(std::uint64_t max_bytes) const;

  std::filesystem::path root_;
  Access access_;
};

/// Returns FA2_CACHE_MAX_MB in bytes. @throws InvalidRequest.
std::uint64_t max_cache_bytes();

/// Returns whether kernels of this arch are code for this CPU, which the process runs itself.
bool is_host_code(const std::string& arch);

/// Returns whether FA2_CACHE_TRUST forbids kernels of this arch from read-only directories and packs; kForbidden says why.
bool is_forbidden(const std::string& arch);
inline constexpr const char* kForbidden =
    "its interpreted kernels are code for this CPU: set FA2_CACHE_TRUST=host";

/// The file has a format of a later fa2.
class LaterFormat : public CacheError {
 public:
  using CacheError::CacheError;
};

/// Returns the bytes of a cache file. Public for tests of damage.
std::vector<std::byte> encode_entry(const KernelBinary& binary);
/// Returns the kernel in a cache file's bytes. @throws CacheError that names the damage; LaterFormat.
KernelBinary decode_entry(const std::vector<std::byte>& bytes, bool with_code = true);

}  // namespace fa2
