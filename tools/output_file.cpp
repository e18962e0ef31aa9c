// Write beside, sync, rename.
#include <fa2/errors.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <tools/output_file.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <system_error>

namespace fa2::tools {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, int error) {
  throw Error(ErrorCode::invalid_request,
              fmt::format("{} cannot be written: {}", path.native(), std::generic_category().message(error)));
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  return error ? path : target;
}

}  // namespace

OutputFile::OutputFile(const fs::path& path) : path_(resolved(path)) {
  open();
  // Not kept open: an interrupted computation shall leave nothing.
  if (!temporary_.empty()) discard();
}

OutputFile::~OutputFile() {
  discard();
}

void OutputFile::open() {
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && ::access(path_.c_str(), W_OK) != 0) fail(path_, errno);
  if (exists && !S_ISREG(status.st_mode)) {
    file_.emplace(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    if (!*file_) fail(path_, errno);
    return;
  }
  const fs::path beside = fmt::format("{}.{:08x}.tmp", path_.native(), std::random_device{}());
  file_.emplace(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!*file_) fail(path_, errno);
  temporary_ = beside;
  if (exists) ::fchmod(file_->get(), status.st_mode & 07777);
}

void OutputFile::discard() {
  file_.reset();
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void OutputFile::write(const void* data, std::size_t bytes) {
  if (!file_) open();
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file_->get(), from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, errno);
    from += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void OutputFile::commit() {
  if (temporary_.empty()) return;
  if (::fsync(file_->get()) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, errno);
  temporary_.clear();
}

}  // namespace fa2::tools
