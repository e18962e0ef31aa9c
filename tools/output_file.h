// A file that a command writes.
#pragma once

#include <fa2/errors.h>
#include <runtime/file.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fa2::tools {

/// An option and the file that it names; "" if it was not given.
struct NamedFile {
  std::string option;
  std::string path;
};

/// Returns the first of `outputs` that is the same file as an output before it or as an input, by whatever name or link; nullopt if
/// there is none. A device or a pipe may be given twice.
std::optional<Violation> shared_output(const std::vector<NamedFile>& outputs,
                                       const std::vector<NamedFile>& inputs);

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
