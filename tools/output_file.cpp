// Writes next to the target, syncs and renames. Also finds names of one file.
#include <core/text.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <tools/output_file.h>
#include <unistd.h>

#include <algorithm>
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

bool is_one_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::exists(a, error) || fs::exists(b, error))
    return fs::equivalent(a, b, error) && fs::is_regular_file(a, error);
  return fs::weakly_canonical(fs::absolute(a, error), error) ==
         fs::weakly_canonical(fs::absolute(b, error), error);
}

const NamedFile* find_same(const std::vector<NamedFile>& files, const std::string& path) {
  const auto found = std::ranges::find_if(
      files, [&](const NamedFile& file) { return !file.path.empty() && is_one_file(file.path, path); });
  return found == files.end() ? nullptr : &*found;
}

}  // namespace

std::vector<Violation> shared_outputs(const std::vector<NamedFile>& outputs,
                                      const std::vector<NamedFile>& inputs) {
  std::vector<Violation> shared;
  std::vector<NamedFile> before;
  for (const NamedFile& output : outputs) {
    if (output.path.empty()) continue;
    const NamedFile* same = find_same(inputs, output.path);
    if (same == nullptr) same = find_same(before, output.path);
    if (same != nullptr)
      shared.push_back({output.option, in_quotes(output.path),
                        "must not be the file of " + same->option + ": give the output a file of its own"});
    before.push_back(output);
  }
  return shared;
}

OutputFile::OutputFile(const fs::path& path) : path_(resolved(path)) {
  open();
  beside_.reset();  // not kept open, because an interrupted computation must leave nothing
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
