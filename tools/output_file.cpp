// Write beside, sync, rename.
#include <fcntl.h>
#include <sys/stat.h>
#include <tools/output_file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace fa2::tools {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  return error ? path : target;
}

}  // namespace

OutputFile::OutputFile(const fs::path& path) : path_(resolved(path)) {
  open();
  beside_.reset();  // not kept open: an interrupted computation shall leave nothing
}

void OutputFile::open() {
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && ::access(path_.c_str(), W_OK) != 0) throw_file_error("cannot write", path_, errno);
  if (exists && !S_ISREG(status.st_mode)) {
    device_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    if (!device_) throw_file_error("cannot write", path_, errno);
    return;
  }
  beside_.emplace(path_, 0666);
  if (exists) beside_->set_mode(status.st_mode & 07777);
}

void OutputFile::write(const void* data, std::size_t bytes) {
  if (device_) return write_all(device_, data, bytes, path_);
  if (!beside_) open();
  beside_->write(data, bytes);
}

void OutputFile::commit() {
  if (!beside_) return;
  beside_->publish();
  beside_.reset();
}

}  // namespace fa2::tools
