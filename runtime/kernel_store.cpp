// Opens directories and packs alike.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/disk_cache.h>
#include <runtime/kernel_store.h>
#include <runtime/log.h>
#include <runtime/pack.h>

#include <utility>

namespace fa2 {
namespace {

namespace fs = std::filesystem;

/// A pack that cannot be opened. It has no kernel, and errors that list it say why.
class ClosedPack final : public KernelStore {
 public:
  ClosedPack(fs::path path, const std::string& reason)
      : path_(std::move(path)), description_(fmt::format("{} ({})", path_.native(), reason)) {}

  std::optional<KernelBinary> load(const std::string&, const std::string&, std::string*) const override {
    return std::nullopt;
  }
  fs::path path_of(const std::string& arch, const std::string& key) const override {
    return path_ / pack_name_of(arch, key);
  }
  std::vector<CacheEntry> entries(bool) const override { return {}; }
  std::string text(const std::string&) const override { return {}; }
  const fs::path& path() const override { return path_; }
  std::string description() const override { return description_; }

 private:
  fs::path path_;
  std::string description_;
};

}  // namespace

StoreLock::~StoreLock() {
  if (file_) unlock_file(file_.get());  // close() alone would leave the lock to a forked child
}

std::shared_ptr<const KernelStore> open_store(const fs::path& path) {
  if (!is_pack_name(path)) return std::make_shared<const DiskCache>(path, DiskCache::Access::read_only);
  try {
    return Pack::open(path);
  } catch (const CacheError& damage) {
    warn_once("pack " + path.native(), fmt::format("pack {} is not used: {}", path.native(), damage.what()));
    return std::make_shared<const ClosedPack>(path, damage.what());
  }
}

}  // namespace fa2
