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
  /// @throws Error naming the path.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// @throws Error, as on a full disk.
  void write(const void* data, std::size_t bytes);
  void commit();

 private:
  void open();
  void discard();

  std::filesystem::path path_;       ///< symbolic links followed
  std::filesystem::path temporary_;  ///< beside it; empty while there is none
  std::optional<FileDescriptor> file_;
};

}  // namespace fa2::tools
