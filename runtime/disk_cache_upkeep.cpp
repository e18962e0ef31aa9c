// Listing and pruning a cache directory while others may be using it.
#include <fcntl.h>
#include <fmt/format.h>
#include <runtime/disk_cache.h>
#include <runtime/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <system_error>
#include <tuple>

namespace fa2 {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::time_t kStaleSeconds = 60 * 60;

struct FoundFile {
  fs::path path;
  struct stat status {};
};

/// What a directory holds, sorted; nothing if it is gone or unreadable.
std::vector<fs::path> list(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Every file of v1/<arch>/<xx>/ with this extension that is still there, in path order.
std::vector<FoundFile> find_files(const fs::path& root, const char* extension) {
  std::vector<FoundFile> files;
  for (const fs::path& arch : list(root / "v1")) {
    for (const fs::path& folder : list(arch)) {
      for (const fs::path& path : list(folder)) {
        FoundFile file{path, {}};
        if (path.extension() == extension && ::lstat(path.c_str(), &file.status) == 0) files.push_back(file);
      }
    }
  }
  return files;
}

bool is_stale(const FoundFile& file) {
  return file.status.st_mtime < std::time(nullptr) - kStaleSeconds;
}

void remove(const FoundFile& file, DiskCache::Pruned& pruned) {
  if (std::remove(file.path.c_str()) != 0) return;
  ++pruned.files;
  pruned.bytes += static_cast<std::uint64_t>(file.status.st_size);
}

void remove_leftovers(const fs::path& root, DiskCache::Pruned& pruned) {
  for (const FoundFile& file : find_files(root, ".tmp")) {
    if (is_stale(file)) remove(file, pruned);
  }
  for (const FoundFile& file : find_files(root, ".lock")) {
    if (!is_stale(file)) continue;
    const FileDescriptor lock(::open(file.path.c_str(), O_RDWR | O_CLOEXEC));
    if (lock && lock_file(lock.get(), 0ms)) remove(file, pruned);
  }
}

}  // namespace

std::vector<CacheEntry> DiskCache::entries(bool with_code) const {
  std::vector<CacheEntry> entries;
  if (!trusted()) return entries;
  for (const FoundFile& file : find_files(root_, ".fa2k")) {
    CacheEntry entry;
    entry.path = file.path;
    entry.file_bytes = static_cast<std::uint64_t>(file.status.st_size);
    entry.last_used = file.status.st_mtime;
    try {
      const auto bytes = read_file(file.path);
      if (!bytes) continue;
      entry.binary = decode_entry(*bytes, with_code);
      if (path_of(entry.binary.arch, entry.binary.key) != file.path) {
        throw CacheError(fmt::format("it holds kernel {} for {}", entry.binary.key, entry.binary.arch));
      }
    } catch (const CacheError& error) {
      entry.binary = {};
      entry.damage = error.what();
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

DiskCache::Pruned DiskCache::prune(std::uint64_t max_bytes) const {
  Pruned damaged;
  if (access_ != Access::read_write || !trusted()) return damaged;
  for (const CacheEntry& entry : entries()) {
    if (entry.damage.empty() || std::remove(entry.path.c_str()) != 0) continue;
    ++damaged.files;
    damaged.bytes += entry.file_bytes;
  }
  const Pruned old = shrink(max_bytes);
  return {damaged.files + old.files, damaged.bytes + old.bytes};
}

DiskCache::Pruned DiskCache::shrink(std::uint64_t max_bytes) const {
  Pruned pruned;
  remove_leftovers(root_, pruned);

  std::vector<FoundFile> files = find_files(root_, ".fa2k");
  std::stable_sort(files.begin(), files.end(), [](const FoundFile& a, const FoundFile& b) {
    return std::tie(a.status.st_mtim.tv_sec, a.status.st_mtim.tv_nsec) <
           std::tie(b.status.st_mtim.tv_sec, b.status.st_mtim.tv_nsec);
  });
  std::uint64_t total = 0;
  for (const FoundFile& file : files) total += static_cast<std::uint64_t>(file.status.st_size);
  for (const FoundFile& file : files) {
    if (total <= max_bytes) break;
    remove(file, pruned);
    total -= static_cast<std::uint64_t>(file.status.st_size);
  }
  return pruned;
}

}  // namespace fa2
