// One directory of compiled kernels: reading, publishing, locking.
#include <core/arch.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <runtime/disk_cache.h>
#include <runtime/env.h>
#include <runtime/file.h>
#include <runtime/log.h>
#include <runtime/trust.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <utility>

namespace fa2 {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kLockPatience = 10s;  // about 20 compilations
constexpr std::time_t kDaySeconds = 24 * 60 * 60;
constexpr unsigned kStoresPerPrune = 10;

fs::path below_root(const std::string& arch, const std::string& key, const char* extension) {
  return fs::path(kKernelFolder) / arch / key.substr(0, 2) / (key + extension);
}

/// Marks a file as used today. Pruning uses modification times, because access times are often not kept. A time in the
/// future, which a wrong clock has left, would keep an unused file for years.
void touch(const FileDescriptor& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && std::abs(status.st_mtime - std::time(nullptr)) > kDaySeconds) {
    ::futimens(file.get(), nullptr);
  }
}

struct stat status_of(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  return status;
}

/// Removes a damaged file, unless another process has replaced the one that was `seen`.
void discard(const fs::path& path, const struct stat& seen) {
  const struct stat now = status_of(path);
  const bool same = now.st_ino == seen.st_ino && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
                    now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec;
  if (same) std::remove(path.c_str());
}

}  // namespace

std::optional<fs::path> default_cache_dir() {
  if (const auto dir = env("FA2_CACHE_DIR")) return *dir;
  if (const auto base = env("XDG_CACHE_HOME")) return fs::path(*base) / "fa2";
  if (const auto home = env("HOME")) return fs::path(*home) / ".cache" / "fa2";
  return std::nullopt;
}

DiskCache::DiskCache(fs::path root, Access access) : root_(std::move(root)), access_(access) {
  if (const auto folder = outdated_folder())
    info_once(
        "cache format " + folder->native(),
        fmt::format("{}: kernels of an older format are not used; remove the folder", folder->native()));
}

std::optional<fs::path> DiskCache::outdated_folder() const {
  std::error_code error;
  const fs::path folder = root_ / "v1";
  return fs::exists(folder, error) ? std::optional(folder) : std::nullopt;
}

fs::path DiskCache::path_of(const std::string& arch, const std::string& key) const {
  return root_ / below_root(arch, key, ".fa2k");
}

std::uint64_t max_cache_bytes() {
  return std::stoull(checked_env("FA2_CACHE_MAX_MB")) << 20;
}

bool is_host_code(const std::string& arch) {
  return arch == interpreter_arch().name;
}

bool is_forbidden(const std::string& arch) {
  return is_host_code(arch) && trust_from_environment() == Trust::own;
}

std::string DiskCache::description() const {
  std::error_code error;
  return root_.native() + (fs::is_directory(root_, error) ? "" : " (no such directory)");
}

std::string DiskCache::text(const std::string& name) const {
  const fs::path path = root_ / name;
  try {
    const FileDescriptor file = open_trusted_file(root_, name, O_RDONLY | O_NONBLOCK);
    if (!file) return {};
    const std::vector<std::byte> bytes = read_file(file, path);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } catch (const CacheError& error) {
    warn_once("text " + path.native(), fmt::format("{} is not used: {}", path.native(), error.what()));
  }
  return {};
}

bool DiskCache::prepare(const fs::path& below) const {
  if (access_ != Access::read_write) return false;
  try {
    open_trusted_folder(root_, below, true);
    return true;
  } catch (const Untrusted& error) {
    warn_of(error);
  } catch (const FileError& error) {
    warn_once("store " + root_.native(),
              fmt::format("kernels are not cached on disk: {}; set FA2_CACHE_DIR to another directory",
                          error.what()));
  }
  return false;
}

std::string DiskCache::warn_of(const Untrusted& error) const {
  std::string text = fmt::format("cache directory {} is not used: {}", root_.native(), error.what());
  warn_once("trust " + root_.native() + " " + error.path().native(), text);
  return text;
}

std::optional<KernelBinary> DiskCache::load(const std::string& arch, const std::string& key,
                                            std::string* untrusted) const {
  const fs::path path = path_of(arch, key);
  const bool own = access_ == Access::read_write;
  const struct stat seen = status_of(path);
  const auto drop = [&](const CacheError& error) {
    const std::string text =
        fmt::format("cache file {} is {}: {}", path.native(), own ? "removed" : "not used", error.what());
    warn_once("damage " + path.native(), text);
    if (own) discard(path, seen);
    return text;
  };
  try {
    const FileDescriptor file =
        open_trusted_file(root_, below_root(arch, key, ".fa2k"), O_RDONLY | O_NONBLOCK);
    if (!file) return std::nullopt;
    if (!own && is_forbidden(arch)) throw Untrusted(kForbidden, root_);
    KernelBinary binary = decode_entry(read_file(file, path));
    if (binary.key != key || binary.arch != arch) {
      throw CacheError(fmt::format("it holds kernel {} for {}", binary.key, binary.arch));
    }
    if (own) touch(file);
    return binary;
  } catch (const FileError& error) {
    warn_once("read " + path.native(), fmt::format("cache file is not used: {}", error.what()));
  } catch (const Untrusted& error) {
    const std::string text = error.path() == path ? drop(error) : warn_of(error);
    if (untrusted != nullptr) *untrusted = text;
  } catch (const CacheError& error) {
    drop(error);
  }
  return std::nullopt;
}

bool DiskCache::store(const KernelBinary& binary) const {
  const fs::path path = path_of(binary.arch, binary.key);
  if (!prepare(below_root(binary.arch, binary.key, "").parent_path())) return false;
  try {
    publish_file(path, encode_entry(binary));
  } catch (const FileError& error) {
    warn_once("store " + root_.native(),
              fmt::format("kernels are not cached on disk: {}; set FA2_CACHE_DIR to another directory",
                          error.what()));
    return false;
  }
  if (std::random_device{}() % kStoresPerPrune == 0) shrink(max_cache_bytes());
  return true;
}

StoreLock DiskCache::lock(const std::string& arch, const std::string& key) const {
  const fs::path below = below_root(arch, key, ".lock");
  if (!prepare(below.parent_path())) return StoreLock();
  try {
    FileDescriptor file = open_trusted_file(root_, below, O_RDWR | O_CREAT);
    if (file && lock_file(file.get(), kLockPatience)) return StoreLock(std::move(file));
  } catch (const CacheError&) {  // without it, two processes may compile the same kernel
  }
  return StoreLock();
}

}  // namespace fa2
