// A file that the command writes.
#pragma once

#include <fa2/errors.h>
#include <runtime/file.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fa2::tools {

/// An option and the file that it names; "" if not given.
struct NamedFile {
  std::string option;
  std::string path;
};

/// Returns the `outputs` that are the same file as an earlier output or an input, under any name or link. A
/// device or a pipe may be given twice.
std::vector<Violation> shared_outputs(const std::vector<NamedFile>& outputs,
                                      const std::vector<NamedFile>& inputs);

/// An output file. The constructor opens it, so that a bad path is reported before any computation. write()
/// writes to a file next to it, and commit() renames that, so the old file stays until the new one is
/// complete. Without commit() nothing remains. A path that is not a regular file (/dev/stdout, a pipe) is
/// written directly.
class OutputFile {
 public:
  /// @throws FileError that names the path, like write() and commit().
  explicit OutputFile(const std::filesystem::path& path);

  void write(const void* data, std::size_t bytes);
  void commit();

 private:
  void open();

  std::filesystem::path path_;  ///< with symbolic links resolved
  std::optional<TemporaryFile> beside_;
  FileDescriptor device_;  ///< used if the path is not a regular file
};

}  // namespace fa2::tools
