// Temporary folders, and locks that show which processes are alive.
#include <fa2/errors.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <interpreter/scratch_folder.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace fa2::interpreter {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kPrefix = "fa2-host-compiler-";

/// Another process may remove a new folder as abandoned before it is locked. Without working locks that
/// cannot happen.
constexpr int kAttempts = 3;

fs::path temporary_directory() {
  std::error_code error;
  fs::path path = fs::temp_directory_path(error);
  if (error) {
    throw Unavailable(
        fmt::format("no temporary folder for compiling a kernel for the CPU ({}): set TMPDIR to a directory",
                    error.message()));
  }
  return path;
}

FileDescriptor open_folder(const fs::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool lies_at(const fs::path& path, const FileDescriptor& folder) {
  struct stat opened {
  }, named{};
  return ::fstat(folder.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

bool is_own(const FileDescriptor& folder) {
  struct stat status {};
  return ::fstat(folder.get(), &status) == 0 && status.st_uid == ::geteuid();
}

void remove_abandoned(const fs::path& parent) {
  std::error_code error, ignored;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().native().starts_with(kPrefix)) continue;
    const FileDescriptor folder = open_folder(it->path());
    if (folder && is_own(folder) && lock_file(folder.get(), 0ms)) fs::remove_all(it->path(), ignored);
  }
}

fs::path new_folder(const fs::path& parent) {
  std::string name = (parent / kPrefix).native() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw_file_error("cannot create directory", name, errno);
  return name;
}

}  // namespace

ScratchFolder::ScratchFolder() {
  const fs::path parent = temporary_directory();
  remove_abandoned(parent);
  for (int attempt = 1;; ++attempt) {
    path_ = new_folder(parent);
    lock_ = open_folder(path_);
    const bool is_held = lock_ && lock_file(lock_.get(), 0ms);
    if ((is_held || attempt >= kAttempts) && lies_at(path_, lock_)) return;
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace fa2::interpreter
