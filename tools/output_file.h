// A file that a command writes.
#pragma once

#include <runtime/file.h>

#include <cstddef>
#include <filesystem>
#include <optional>

namespace fa2::tools {

/// Tried out at once, so that a path that cannot be written is known before anything is computed. Written beside
/// the path, and in its place only by commit(): what was there stays until all of the new is. Without commit()
/// nothing is left behind. What is no regular file (/dev/stdout, a pipe) is written as it is.
class OutputFile {
 public:
  /// @throws FileError naming the path, as write() and commit() do.
  explicit OutputFile(const std::filesystem::path& path);

  void write(const void* data, std::size_t bytes);
  void commit();

 private:
  void open();

  std::filesystem::path path_;  ///< symbolic links followed
  std::optional<TemporaryFile> beside_;
  FileDescriptor device_;  ///< where the path is no regular file's
};

}  // namespace fa2::tools
