// Lists and prunes a cache directory that other processes may be using.
#include <fcntl.h>
#include <fmt/format.h>
#include <runtime/disk_cache.h>
#include <runtime/file.h>
#include <runtime/trust.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <system_error>
#include <tuple>
#include <utility>

namespace fa2 {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct FoundFile {
  fs::path below;  ///< relative to the root
  struct stat status {};
};

using Refused = std::vector<CacheEntry>;

FileError unreadable(const fs::path& path, const std::error_code& error) {
  return FileError(fmt::format("cannot read {}: {}", path.native(), error.message()));
}

/// Returns the entry of a file or folder that cannot be used.
CacheEntry refusal(const fs::path& path, const CacheError& error) {
  CacheEntry entry;
  entry.path = path;
  entry.damage = error.what();
  entry.untrusted = dynamic_cast<const Untrusted*>(&error) != nullptr;
  entry.spared = dynamic_cast<const FileError*>(&error) != nullptr ||
                 dynamic_cast<const LaterFormat*>(&error) != nullptr;
  return entry;
}

/// Returns the names in folder `root`/`below`, sorted; none if it is gone. `refused` receives a folder that is
/// untrusted or cannot be read.
std::vector<fs::path> list(const fs::path& root, const fs::path& below, Refused& refused) {
  std::vector<fs::path> names;
  try {
    if (!open_trusted_folder(root, below)) return names;
  } catch (const Untrusted& error) {
    refused.push_back(refusal(error.path(), error));
    return names;
  } catch (const FileError& error) {
    refused.push_back(refusal(root / below, error));
    return names;
  }
  std::error_code error;
  for (fs::directory_iterator it(root / below, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename());
  }
  const bool is_gone = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !is_gone) refused.push_back(refusal(root / below, unreadable(root / below, error)));
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns every existing file in v2/<arch>/<xx>/ with this extension, in path order and relative to the
/// root.
std::vector<FoundFile> find_files(const fs::path& root, const char* extension, Refused& refused) {
  std::vector<FoundFile> files;
  const fs::path top(kKernelFolder);
  for (const fs::path& arch : list(root, top, refused)) {
    for (const fs::path& folder : list(root, top / arch, refused)) {
      for (const fs::path& name : list(root, top / arch / folder, refused)) {
        FoundFile file{top / arch / folder / name, {}};
        if (name.extension() != extension) continue;
        const fs::path path = root / file.below;
        if (::lstat(path.c_str(), &file.status) == 0) {
          files.push_back(file);
        } else if (errno != ENOENT) {
          refused.push_back(refusal(path, unreadable(path, {errno, std::generic_category()})));
        }
      }
    }
  }
  return files;
}

void remove(const fs::path& root, const FoundFile& file, DiskCache::Pruned& pruned) {
  if (std::remove((root / file.below).c_str()) != 0) return;
  ++pruned.files;
  pruned.bytes += static_cast<std::uint64_t>(file.status.st_size);
}

bool is_free(const fs::path& root, const FoundFile& file) {
  try {
    const FileDescriptor lock = open_trusted_file(root, file.below, O_RDWR);
    return lock && lock_file(lock.get(), 0ms);
  } catch (const CacheError&) {
    return false;
  }
}

void remove_leftovers(const fs::path& root, DiskCache::Pruned& pruned) {
  Refused ignored;
  for (const FoundFile& file : find_files(root, ".tmp", ignored)) {
    if (is_stale(file.status.st_mtime)) remove(root, file, pruned);
  }
  for (const FoundFile& file : find_files(root, ".lock", ignored)) {
    if (is_stale(file.status.st_mtime) && is_free(root, file)) remove(root, file, pruned);
  }
}

}  // namespace

std::vector<CacheEntry> DiskCache::entries(bool with_code) const {
  std::vector<CacheEntry> entries;
  Refused refused;
  for (const FoundFile& file : find_files(root_, ".fa2k", refused)) {
    CacheEntry entry;
    entry.path = root_ / file.below;
    try {
      const FileDescriptor opened = open_trusted_file(root_, file.below, O_RDONLY | O_NONBLOCK);
      if (!opened) continue;
      entry.binary = decode_entry(read_file(opened, entry.path), with_code);
      if (path_of(entry.binary.arch, entry.binary.key) != entry.path) {
        throw CacheError(fmt::format("it holds kernel {} for {}", entry.binary.key, entry.binary.arch));
      }
    } catch (const CacheError& error) {
      entry = refusal(entry.path, error);
    }
    entry.file_bytes = static_cast<std::uint64_t>(file.status.st_size);
    entry.last_used = file.status.st_mtime;
    entries.push_back(std::move(entry));
  }
  std::move(refused.begin(), refused.end(), std::back_inserter(entries));
  return entries;
}

DiskCache::Pruned DiskCache::prune(std::uint64_t max_bytes) const {
  Pruned damaged;
  if (access_ != Access::read_write) return damaged;
  for (const CacheEntry& entry : entries()) {
    const bool is_file = entry.path.extension() == ".fa2k";  // an untrusted folder is left alone
    if (entry.damage.empty() || entry.spared || !is_file || std::remove(entry.path.c_str()) != 0) continue;
    ++damaged.files;
    damaged.bytes += entry.file_bytes;
  }
  const Pruned old = shrink(max_bytes);
  return {damaged.files + old.files, damaged.bytes + old.bytes};
}

DiskCache::Pruned DiskCache::shrink(std::uint64_t max_bytes) const {
  Pruned pruned;
  remove_leftovers(root_, pruned);

  Refused ignored;
  std::vector<FoundFile> files = find_files(root_, ".fa2k", ignored);
  std::stable_sort(files.begin(), files.end(), [](const FoundFile& a, const FoundFile& b) {
    return std::tie(a.status.st_mtim.tv_sec, a.status.st_mtim.tv_nsec) <
           std::tie(b.status.st_mtim.tv_sec, b.status.st_mtim.tv_nsec);
  });
  std::uint64_t total = 0;
  for (const FoundFile& file : files) total += static_cast<std::uint64_t>(file.status.st_size);
  for (const FoundFile& file : files) {
    if (total <= max_bytes) break;
    remove(root_, file, pruned);
    total -= static_cast<std::uint64_t>(file.status.st_size);
  }
  return pruned;
}

}  // namespace fa2
