// The documents of `fa2 cache`, `fa2 pack` and fa2/c_cache.h.
#pragma once

#include <runtime/disk_cache.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace fa2 {

/// Returns `name`, or if it is empty the user's own cache. @throws Error (ErrorCode::cache) without such a directory or pack.
std::filesystem::path cache_directory(const std::string& name);

/// Returns the kernels of a directory or pack, the last used first. `verify`: reads every file and checks its checksums.
/// @throws CacheError for a pack that cannot be opened.
std::vector<CacheEntry> cache_entries(const std::filesystem::path& directory, bool verify);

/// Returns why this library never runs a kernel that another version of it made; empty if it may.
std::string why_outdated(const KernelBinary& binary);

std::uint64_t bytes_of(const std::vector<CacheEntry>& entries);

/// Returns UTC, as in "2026-11-24T12:00:00Z".
std::string time_text(std::int64_t seconds_since_epoch);

nlohmann::ordered_json document_of(const std::filesystem::path& directory,
                                   const std::vector<CacheEntry>& entries);
/// Returns what prune() removed, and what `rest` holds.
nlohmann::ordered_json document_of(const std::filesystem::path& directory, const DiskCache::Pruned& pruned,
                                   const std::vector<CacheEntry>& rest);

}  // namespace fa2
