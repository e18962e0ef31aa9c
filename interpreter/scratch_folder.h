// A folder for what a compilation needs, which outlives neither its owner nor, for long, a killed process.
#pragma once

#include <runtime/file.h>

#include <filesystem>

namespace fa2::interpreter {

/// $TMPDIR/fa2-host-compiler-XXXXXX (/tmp without TMPDIR), mode 0700, removed with all that is in it.
class ScratchFolder {
 public:
  /// First removes the folders of this user's processes that were killed: a living one holds its by a lock.
  /// @throws Unavailable if there is no temporary directory, FileError if nothing can be made in it.
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
