// POSIX file operations: whole reads, atomic publication, advisory locks.
#include <fcntl.h>
#include <fmt/format.h>
#include <runtime/file.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

namespace fa2 {

namespace fs = std::filesystem;

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void throw_file_error(std::string_view what, const fs::path& path, int error) {
  throw FileError(fmt::format("{} {}: {}", what, path.native(), std::generic_category().message(error)));
}

std::vector<std::byte> read_file(const FileDescriptor& file, const fs::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_file_error("cannot stat", path, errno);
  if (!S_ISREG(status.st_mode)) throw CacheError("not a regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > kMaxFileBytes) throw CacheError(fmt::format("{} bytes, the limit is {}", size, kMaxFileBytes));

  std::vector<std::byte> bytes(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error("cannot read", path, errno);
    if (got == 0) throw FileError(fmt::format("cannot read {}: it became shorter meanwhile", path.native()));
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::optional<std::vector<std::byte>> read_file(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (!file) throw_file_error("cannot open", path, errno);
  return read_file(file, path);
}

void make_private_directories(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return;
  const int error = errno;
  if (error != ENOENT || !path.has_relative_path()) throw_file_error("cannot create directory", path, error);
  make_private_directories(path.parent_path());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    throw_file_error("cannot create directory", path, errno);
  }
}

void write_all(const FileDescriptor& file, const void* data, std::size_t bytes, const fs::path& path) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file.get(), from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_file_error("cannot write", path, errno);
    from += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

TemporaryFile::TemporaryFile(const fs::path& target, unsigned mode)
    : target_(target),
      path_(fmt::format("{}.{}.{:08x}.tmp", (target.parent_path() / target.stem()).native(), ::getpid(),
                        std::random_device{}())),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)) {
  if (!file_) throw_file_error("cannot write", target_, errno);
}

TemporaryFile::~TemporaryFile() {
  if (!published_) ::unlink(path_.c_str());
}

void TemporaryFile::set_mode(unsigned mode) {
  ::fchmod(file_.get(), mode);
}

void TemporaryFile::write(const void* data, std::size_t bytes) {
  write_all(file_, data, bytes, target_);
}

void TemporaryFile::publish() {
  if (::fsync(file_.get()) != 0) throw_file_error("cannot sync", target_, errno);
  if (::rename(path_.c_str(), target_.c_str()) != 0) throw_file_error("cannot replace", target_, errno);
  published_ = true;
  // Best effort: without it, a power cut may lose the new name but never damages the file.
  const FileDescriptor directory(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) ::fsync(directory.get());
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

bool is_stale(std::int64_t modified) {
  constexpr std::int64_t kHourSeconds = 60 * 60;
  return std::abs(modified - std::time(nullptr)) > kHourSeconds;
}

void remove_abandoned_files(const fs::path& target) {
  const std::string stem = target.stem().native() + ".";
  std::error_code error;
  for (fs::directory_iterator it(folder_of(target), error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().native();
    if (!name.starts_with(stem)) continue;
    int dot = 0, end_of_hex = 0, end_of_name = 0;  // PID.8 hex digits.tmp
    std::sscanf(name.c_str() + stem.size(), "%*10[0-9]%n.%*8[0-9a-f]%n.tmp%n", &dot, &end_of_hex,
                &end_of_name);
    const bool is_temporary =
        end_of_hex - dot == 9 && name.size() == stem.size() + static_cast<std::size_t>(end_of_name);
    struct stat status {};
    if (!is_temporary || ::lstat(it->path().c_str(), &status) != 0) continue;
    if (is_stale(status.st_mtime)) ::unlink(it->path().c_str());
  }
}

void publish_file(const fs::path& target, const std::vector<std::byte>& bytes) {
  TemporaryFile file(target);
  file.write(bytes.data(), bytes.size());
  file.publish();
}

void require_writable(const fs::path& file) {
  if (file.has_parent_path()) make_private_directories(file.parent_path());
  const TemporaryFile probe(file);
}

void make_readable_by_all(const fs::path& root) {
  ::chmod(root.c_str(), 0755);
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_symlink(error)) ::chmod(it->path().c_str(), it->is_directory(error) ? 0755 : 0644);
  }
}

bool lock_file(int fd, std::chrono::milliseconds patience) {
  using namespace std::chrono_literals;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (std::chrono::milliseconds pause = 5ms;; pause = std::min(pause * 2, std::chrono::milliseconds(50ms))) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    if (std::chrono::steady_clock::now() + pause > deadline) return false;
    std::this_thread::sleep_for(pause);
  }
}

void unlock_file(int fd) {
  ::flock(fd, LOCK_UN);
}

}  // namespace fa2
