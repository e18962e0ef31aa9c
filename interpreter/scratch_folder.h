// A temporary folder for one compilation. Its owner removes it; folders of killed processes are removed
// later.
#pragma once

#include <runtime/file.h>

#include <filesystem>

namespace fa2::interpreter {

/// $TMPDIR/fa2-host-compiler-XXXXXX (/tmp without TMPDIR), mode 0700. The destructor removes it and its
/// contents.
class ScratchFolder {
 public:
  /// First removes the folders of this user's killed processes; a living process holds a lock on its folder.
  /// @throws Unavailable if there is no temporary directory, FileError if it cannot be written.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor lock_;
};

}  // namespace fa2::interpreter
