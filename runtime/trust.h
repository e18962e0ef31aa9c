// Whom the caches believe: what they read runs with this user's rights (SECURITY.md).
#pragma once

#include <runtime/file.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace fa2 {

/// FA2_CACHE_TRUST. Each level grants what the ones before it do.
enum class Trust : std::uint8_t {
  own,        ///< "0": what only this user or root could have written; from packs, code for GPUs alone
  host_code,  ///< "host": code for this CPU too, as interpreted kernels are, from packs
  everybody,  ///< "1": whoever could have written it
};

/// An unknown value is `own`, with one warning.
Trust trust_from_environment();

/// Somebody else could have written what a cache would use. what() says what, why, and what mends it.
class Untrusted : public CacheError {
 public:
  Untrusted(const std::string& message, std::filesystem::path path)
      : CacheError(message), path_(std::move(path)) {}
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// @throws Untrusted if the folder is a symbolic link, or if another user owns it or may write to it; FileError if the
/// system refuses, as if nothing is there.
void require_trusted_folder(const std::filesystem::path& path);

/// Opens the folder or the file `root`/`below` step by step, each part in the descriptor of the one before. What is
/// opened belongs to this user or root, and neither its group nor others may write to it. `root` may be named
/// by a symbolic link, nothing below it may be one. Not there: no descriptor.
/// @throws Untrusted; FileError if the system refuses; with `create` also where something else is in the way.
/// `create`: what is missing is made, mode 0700. The descriptor is a mere place (O_PATH).
FileDescriptor open_trusted_folder(const std::filesystem::path& root, const std::filesystem::path& below,
                                   bool create = false);
/// `flags`: as for open(2). With O_CREAT the folders must be there, and the file gets mode 0600.
FileDescriptor open_trusted_file(const std::filesystem::path& root, const std::filesystem::path& below,
                                 int flags);

}  // namespace fa2
