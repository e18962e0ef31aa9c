// The POSIX file operations that the caches use. Safe from any thread.
#pragma once

#include <fa2/errors.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace fa2 {

/// Owns a file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

/// The operating system refused an operation. This does not mean that a file is damaged.
class FileError : public CacheError {
 public:
  using CacheError::CacheError;
};

/// @throws FileError always: "<what> <path>: <text of error number>".
[[noreturn]] void throw_file_error(std::string_view what, const std::filesystem::path& path, int error);

/// Largest file that is read; bytes. No kernel or tuning file comes near it.
inline constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

/// Returns an open file's contents. `path` is for messages. @throws CacheError if the file is not regular or
/// too large, FileError if it cannot be read.
std::vector<std::byte> read_file(const FileDescriptor& file, const std::filesystem::path& path);
/// Returns a file's contents; nullopt if there is no file. Never blocks.
std::optional<std::vector<std::byte>> read_file(const std::filesystem::path& path);

/// Creates `path` and its missing parents, mode 0700. @throws FileError.
void make_private_directories(const std::filesystem::path& path);

/// Writes all `bytes` bytes. @throws FileError that names `path`.
void write_all(const FileDescriptor& file, const void* data, std::size_t bytes,
               const std::filesystem::path& path);

/// A temporary file next to `target`. publish() renames it, so readers see the old file or all of the new
/// one. Without publish() nothing remains. Every FileError names the target.
class TemporaryFile {
 public:
  /// `mode`: as for open(2). @throws FileError.
  explicit TemporaryFile(const std::filesystem::path& target, unsigned mode = 0600);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Sets the mode regardless of the umask.
  void set_mode(unsigned mode);
  /// @throws FileError, for example on a full disk.
  void write(const void* data, std::size_t bytes);
  /// Syncs and renames. Must be the last call. @throws FileError.
  void publish();

 private:
  std::filesystem::path target_, path_;
  FileDescriptor file_;
  bool published_ = false;
};

/// Returns the folder that holds a file; "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& file);

/// Returns whether a temporary file or lock with this modification time (seconds since the epoch) was abandoned an hour ago. A time
/// in the future, which a wrong clock has left, is old too.
bool is_stale(std::int64_t modified);

/// Removes the temporary files next to `target` that killed processes have left there, if they are stale.
void remove_abandoned_files(const std::filesystem::path& target);

/// Publishes these bytes through a TemporaryFile. @throws FileError.
void publish_file(const std::filesystem::path& target, const std::vector<std::byte>& bytes);

/// Fails before minutes of work if a file cannot be written. Makes its folder if it is missing, mode 0700. @throws FileError.
void require_writable(const std::filesystem::path& file);

/// Lets every user read the files below `root`, as far as this user may grant it.
void make_readable_by_all(const std::filesystem::path& root);

/// Takes an exclusive flock, polling for at most `patience`. Returns false if another holder kept it or the
/// file system has no locks. The lock ends with unlock_file(), with the last descriptor of this open file, or
/// with the process.
bool lock_file(int fd, std::chrono::milliseconds patience);
void unlock_file(int fd);

}  // namespace fa2
