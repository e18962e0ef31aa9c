// Which cache files may be trusted: code in them runs with this user's rights (SECURITY.md).
#pragma once

#include <runtime/file.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace fa2 {

/// FA2_CACHE_TRUST. Each level includes the ones before it.
enum class Trust : std::uint8_t {
  own,        ///< "0": files that only this user or root could have written; packs: only GPU code
  host_code,  ///< "host": packs also with code for this CPU, such as interpreted kernels
  everybody,  ///< "1": files that anyone could have written
};

/// Returns the level. An unknown value counts as `own`, with one warning.
Trust trust_from_environment();

/// Another user could have written a file that a cache would use. what() names the file, the reason and the
/// remedy.
class Untrusted : public CacheError {
 public:
  Untrusted(const std::string& message, std::filesystem::path path)
      : CacheError(message), path_(std::move(path)) {}
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// @throws Untrusted if the folder is a symbolic link, or if another user owns it or may write to it;
/// FileError if the system refuses, for example because nothing is there.
void require_trusted_folder(const std::filesystem::path& path);

/// Opens the folder `root`/`below` step by step, each part relative to the descriptor before. Every folder
/// must belong to this user or root, and neither its group nor others may write to it. `root` may be a
/// symbolic link; nothing below it may be one. Returns no descriptor if the folder does not exist. `create`:
/// missing folders are made, mode 0700. The descriptor is O_PATH.
/// @throws Untrusted; FileError if the system refuses; with `create` also if another kind of file is in the
/// way.
FileDescriptor open_trusted_folder(const std::filesystem::path& root, const std::filesystem::path& below,
                                   bool create = false);
/// Opens a file like open_trusted_folder(). `flags`: as for open(2). With O_CREAT the folders must exist, and
/// the file gets mode 0600.
FileDescriptor open_trusted_file(const std::filesystem::path& root, const std::filesystem::path& below,
                                 int flags);

}  // namespace fa2
