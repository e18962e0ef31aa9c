// Opens the files that a cache reads, and checks the opened file: its name may denote another file a moment
// later.
#include <fcntl.h>
#include <fmt/format.h>
#include <runtime/env.h>
#include <runtime/log.h>
#include <runtime/trust.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace fa2 {
namespace {

namespace fs = std::filesystem;

constexpr int kPlace = O_PATH | O_NOFOLLOW | O_CLOEXEC;

[[noreturn]] void refuse(const fs::path& path, const std::string& cause, const std::string& mend) {
  throw Untrusted(fmt::format("{}: {}, or set FA2_CACHE_TRUST=1", cause, mend), path);
}

[[noreturn]] void refuse_link(const fs::path& path) {
  throw Untrusted(fmt::format("{0} is a symbolic link: replace it by its target", path.native()), path);
}

void require_trusted(const FileDescriptor& opened, const fs::path& path) {
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) throw_file_error("cannot stat", path, errno);
  if (S_ISLNK(status.st_mode)) refuse_link(path);
  if (trust_from_environment() == Trust::everybody) return;
  const uid_t self = ::geteuid();
  if (status.st_uid != self && status.st_uid != 0) {
    refuse(path,
           fmt::format("{} belongs to user {}, not to {}root", path.native(), status.st_uid,
                       self == 0 ? "" : fmt::format("user {} or ", self)),
           fmt::format("`chown -R {} {}`", self, path.native()));
  }
  const bool by_others = (status.st_mode & S_IWOTH) != 0;
  if (by_others || (status.st_mode & S_IWGRP) != 0) {
    refuse(path, fmt::format("{} may write to {}", by_others ? "every user" : "its group", path.native()),
           fmt::format("`chmod -R go-w {}`", path.native()));
  }
}

/// Returns no descriptor if `error` means that nothing is there; otherwise throws.
FileDescriptor absent(const fs::path& path, int error) {
  if (error != ENOENT && error != ENOTDIR) throw_file_error("cannot open", path, error);
  return FileDescriptor();
}

void make_folder(const FileDescriptor& parent, const fs::path& name, const fs::path& path) {
  if (::mkdirat(parent.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
    throw_file_error("cannot create directory", path, errno);
  }
}

}  // namespace

Trust trust_from_environment() {
  const std::string value = env("FA2_CACHE_TRUST").value_or("0");
  if (value == "1") return Trust::everybody;
  if (value == "host") return Trust::host_code;
  for (const Violation& wrong : violations_of_variable("FA2_CACHE_TRUST", value))
    warn_once("FA2_CACHE_TRUST", to_string(wrong) + "; using 0");
  return Trust::own;
}

void require_trusted_folder(const fs::path& path) {
  const FileDescriptor place(::open(path.c_str(), kPlace));
  if (!place) throw_file_error("cannot open", path, errno);
  require_trusted(place, path);
}

FileDescriptor open_trusted_folder(const fs::path& root, const fs::path& below, bool create) {
  if (create) make_private_directories(root);
  FileDescriptor folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder && create) throw_file_error("cannot create directory", root, errno);
  if (!folder) return absent(root, errno);
  require_trusted(folder, root);
  fs::path path = root;
  for (const fs::path& name : below) {
    path /= name;
    if (create) make_folder(folder, name, path);
    FileDescriptor next(::openat(folder.get(), name.c_str(), kPlace));
    if (!next) return absent(path, errno);
    require_trusted(next, path);
    folder = std::move(next);
  }
  return folder;
}

FileDescriptor open_trusted_file(const fs::path& root, const fs::path& below, int flags) {
  const fs::path path = root / below;
  const FileDescriptor folder = open_trusted_folder(root, below.parent_path());
  if (!folder) return FileDescriptor();
  FileDescriptor file(::openat(folder.get(), below.filename().c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file && errno == ELOOP) refuse_link(path);
  if (!file) return absent(path, errno);
  require_trusted(file, path);
  return file;
}

}  // namespace fa2
