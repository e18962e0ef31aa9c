// One directory of compiled kernels: reading, publishing, locking, and whom to trust.
#include <fcntl.h>
#include <fmt/format.h>
#include <runtime/disk_cache.h>
#include <runtime/env.h>
#include <runtime/file.h>
#include <runtime/log.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <ctime>
#include <random>
#include <utility>

namespace fa2 {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kLockPatience = 10s;  // some 20 compilations
constexpr std::time_t kDaySeconds = 24 * 60 * 60;
constexpr unsigned kStoresPerPrune = 10;
constexpr std::uint64_t kDefaultMaxMegabytes = 512;

/// Why other users could have written to this directory; empty if they could not.
std::string why_untrusted(const struct stat& status, DiskCache::Access access) {
  const bool reading = access == DiskCache::Access::read_only;
  const uid_t self = ::geteuid();
  if (status.st_uid != self && !(reading && status.st_uid == 0)) {
    return fmt::format("it belongs to user {}, not to user {}{}", status.st_uid, self,
                       reading ? " or root" : "");
  }
  if ((status.st_mode & S_IWOTH) != 0) return "every user may write to it";
  if (!reading && (status.st_mode & S_IWGRP) != 0) return "its group may write to it";
  return "";
}

std::uint64_t max_bytes() {
  const std::string text = env("FA2_CACHE_MAX_MB").value_or(std::to_string(kDefaultMaxMegabytes));
  std::uint32_t megabytes = kDefaultMaxMegabytes;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), megabytes);
  if (error != std::errc() || stop != text.data() + text.size()) {
    warn_once("FA2_CACHE_MAX_MB", fmt::format("FA2_CACHE_MAX_MB={} is no number of megabytes; using {}", text,
                                              kDefaultMaxMegabytes));
    megabytes = kDefaultMaxMegabytes;
  }
  return std::uint64_t{megabytes} << 20;
}

/// Marks a file as used today: pruning goes by modification times, since access times are often not kept.
void touch(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && status.st_mtime < std::time(nullptr) - kDaySeconds) {
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  }
}

struct stat status_of(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  return status;
}

/// Removes a damaged file, unless it is no longer the one that was `seen`: somebody may have replaced it.
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

DiskCache::DiskCache(fs::path root, Access access) : root_(std::move(root)), access_(access) {}

fs::path DiskCache::path_of(const std::string& arch, const std::string& key) const {
  return root_ / "v1" / arch / key.substr(0, 2) / (key + ".fa2k");
}

bool DiskCache::trusted() const {
  struct stat status {};
  if (::stat(root_.c_str(), &status) != 0) return true;  // nothing there that could be misused
  const std::string cause = why_untrusted(status, access_);
  if (cause.empty() || env("FA2_CACHE_TRUST") == "1") return true;
  warn_once("trust " + root_.native(),
            fmt::format("cache directory {} is not used: {}. Set FA2_CACHE_TRUST=1 to use it anyway",
                        root_.native(), cause));
  return false;
}

bool DiskCache::prepare(const fs::path& folder) const {
  if (access_ != Access::read_write) return false;
  try {
    make_private_directories(root_);
    if (!trusted()) return false;
    make_private_directories(folder);
    return true;
  } catch (const FileError& error) {
    warn_once("store " + root_.native(), fmt::format("kernels are not cached on disk: {}", error.what()));
    return false;
  }
}

std::optional<KernelBinary> DiskCache::load(const std::string& arch, const std::string& key) const {
  if (!trusted()) return std::nullopt;
  const fs::path path = path_of(arch, key);
  const struct stat seen = status_of(path);
  try {
    const auto bytes = read_file(path);
    if (!bytes) return std::nullopt;
    KernelBinary binary = decode_entry(*bytes);
    if (binary.key != key || binary.arch != arch) {
      throw CacheError(fmt::format("it holds kernel {} for {}", binary.key, binary.arch));
    }
    if (access_ == Access::read_write) touch(path);
    return binary;
  } catch (const FileError& error) {
    warn_once("read " + path.native(), fmt::format("cache file is not used: {}", error.what()));
  } catch (const CacheError& error) {
    const bool own = access_ == Access::read_write;
    warn_once("damage " + path.native(), fmt::format("cache file {} is {}: {}", path.native(),
                                                     own ? "removed" : "not used", error.what()));
    if (own) discard(path, seen);
  }
  return std::nullopt;
}

bool DiskCache::store(const KernelBinary& binary) const {
  const fs::path path = path_of(binary.arch, binary.key);
  if (!prepare(path.parent_path())) return false;
  try {
    publish_file(path, encode_entry(binary));
  } catch (const FileError& error) {
    warn_once("store " + root_.native(), fmt::format("kernels are not cached on disk: {}", error.what()));
    return false;
  }
  if (std::random_device{}() % kStoresPerPrune == 0) shrink(max_bytes());
  return true;
}

DiskCache::Lock DiskCache::lock(const std::string& arch, const std::string& key) const {
  const fs::path path = path_of(arch, key).replace_extension(".lock");
  if (!prepare(path.parent_path())) return Lock(-1);
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file || !lock_file(file.get(), kLockPatience)) return Lock(-1);
  return Lock(file.release());
}

DiskCache::Lock::~Lock() {
  const FileDescriptor file(fd_);
  if (file) unlock_file(file.get());  // close() alone would leave the lock to a forked child
}

}  // namespace fa2
