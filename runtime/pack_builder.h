// A kernel pack that is being made.
#pragma once

#include <runtime/kernel_store.h>
#include <runtime/pack.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fa2 {

/// Collects kernels and texts, and writes them as a pack: the same bytes for the same contents, in whatever order they came.
/// Thread-safe. As the user's store of a KernelCache, it receives what the cache compiles, and refusals.
class PackBuilder : public WritableStore {
 public:
  /// `path`: the file that write() publishes.
  explicit PackBuilder(std::filesystem::path path) : path_(std::move(path)) {}

  /// Leaves the compile time out, which differs from run to run. A kernel that is there already is replaced.
  bool store(const KernelBinary& binary) const override;
  /// Sets a text, such as tuning records; removes an empty one. @throws InvalidRequest for a name of 64 bytes or more.
  void set_text(const std::string& name, const std::string& text);
  /// Adds every kernel of a store. @throws CacheError for one that is damaged, or has other contents here.
  void add(const KernelStore& store);

  /// Returns the pack's bytes.
  std::vector<std::byte> encode() const;
  /// Publishes the pack atomically, readable by all and writable by its owner. @throws FileError.
  void write() const;

  std::optional<KernelBinary> load(const std::string& arch, const std::string& key,
                                   std::string* untrusted = nullptr) const override;
  std::filesystem::path path_of(const std::string& arch, const std::string& key) const override;
  std::vector<CacheEntry> entries(bool with_code = false) const override;
  std::string text(const std::string& name) const override;
  const std::filesystem::path& path() const override { return path_; }
  std::string description() const override { return path_.native(); }
  /// No other process sees what is collected here.
  StoreLock lock(const std::string&, const std::string&) const override { return StoreLock(); }

 private:
  /// Contents as a pack stores them.
  struct Stored {
    std::vector<std::byte> bytes;
    std::uint64_t size = 0;  ///< of the original; bytes

    friend bool operator==(const Stored&, const Stored&) = default;
  };
  static Stored stored_form_of(const std::vector<std::byte>& original);
  /// Leaves the compile time out.
  static Stored stored_form_of(KernelBinary binary);

  std::filesystem::path path_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Stored> contents_;  ///< by name; guarded by mutex_
};

}  // namespace fa2
