// A kernel pack: one file of compiled kernels and tuning records for deployment.
//
// Layout, little-endian:
//   "FA2PACK\0", format version, number of rows (uint32 each), hash of both and of the rows (32 hex digits);
//   rows, ordered by name: name (64 bytes, padded with zeros), offset, stored size, size (uint64 each), hash of the stored bytes;
//   contents, in the order of the rows and without gaps.
// A kernel is named "<arch>/<key>", and its contents are those of a cache file. Other names are texts, such as "tuning.jsonl".
// Contents are compressed (zlib's format) if that makes them smaller; both sizes are equal otherwise.
#pragma once

#include <runtime/file.h>
#include <runtime/kernel_store.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fa2 {

inline constexpr const char* kPackExtension = ".fa2pack";

/// Returns whether a path names a pack, by its extension.
bool is_pack_name(const std::filesystem::path& path);

/// Returns the name in packs of a kernel.
std::string pack_name_of(const std::string& arch, const std::string& key);

/// Returns whether a row of this name is a kernel, and not a text.
bool is_kernel_name(const std::string& name);

/// A pack that is open for reading. Immutable and thread-safe. Its index is read once, and a kernel when it is asked for.
///
/// The file is read, not mapped: a file that is overwritten in place would kill every process that has mapped it, by SIGBUS. Opening
/// a pack of 216 kernels takes 20 us on an EPYC, and loading one of 100 kB 0.14 ms, most of which is decompression.
class Pack final : public KernelStore {
 public:
  /// One row of the index.
  struct Row {
    std::string name;
    std::uint64_t offset = 0, stored = 0, size = 0;  ///< bytes
    std::string hash;                                ///< of the stored bytes
  };

  /// Opens a file that only this user or root could have written (runtime/trust.h).
  /// @throws CacheError that names the damage; FileError; Untrusted.
  static std::shared_ptr<const Pack> open(const std::filesystem::path& path);

  /// Returns a pack in this process's memory, which must stay valid for the life of the pack. `name` stands for its path.
  /// @throws CacheError that names the damage.
  static std::shared_ptr<const Pack> of_memory(const std::string& name, std::span<const std::byte> bytes);

  std::optional<KernelBinary> load(const std::string& arch, const std::string& key,
                                   std::string* untrusted = nullptr) const override;
  std::filesystem::path path_of(const std::string& arch, const std::string& key) const override;
  std::vector<CacheEntry> entries(bool with_code = false) const override;
  std::string text(const std::string& name) const override;
  std::string description() const override { return path_.native(); }

  const std::filesystem::path& path() const override { return path_; }
  const std::vector<Row>& rows() const { return rows_; }
  /// Returns the size of the whole pack; bytes.
  std::uint64_t bytes() const { return bytes_; }
  /// Returns the contents of a row, decompressed. @throws CacheError that names the damage; FileError.
  std::vector<std::byte> contents(const Row& row) const;

 private:
  Pack(std::filesystem::path path, FileDescriptor file, std::span<const std::byte> memory);
  /// Returns bytes [offset, offset + size).
  std::vector<std::byte> read(std::uint64_t offset, std::uint64_t size) const;
  std::vector<Row> read_index() const;
  const Row* find(const std::string& name) const;
  /// Returns the kernel of a row. @throws CacheError that names the damage.
  KernelBinary kernel(const Row& row, bool with_code) const;
  bool is_embedded() const { return !file_; }

  std::filesystem::path path_;
  FileDescriptor file_;                ///< none if the pack is in memory
  std::span<const std::byte> memory_;  ///< empty if the pack is a file
  std::uint64_t bytes_ = 0;
  std::vector<Row> rows_;
};

/// Adds a pack to those that lie in this process's memory, which every Context made from now on searches first. @throws CacheError.
void add_embedded_pack(const std::string& name, std::span<const std::byte> bytes);

/// Returns the packs that were added, in order.
std::vector<std::shared_ptr<const Pack>> embedded_packs();

}  // namespace fa2
