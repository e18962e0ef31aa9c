// The list of subjects, and what judges share.
#include "subject.h"

#include <fcntl.h>
#include <runtime/log.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tests/support/temporary_directory.h>
#include <unistd.h>

#include <memory>
#include <sstream>
#include <system_error>

#include "system_calls.h"

namespace fa2::test {
namespace {

std::ostringstream& warnings() {
  static std::ostringstream stream;
  return stream;
}

}  // namespace

void forget_warnings() {
  static const bool is_captured = [] {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(warnings());
    sink->set_pattern("%v");
    log().sinks() = {sink};
    log().set_level(spdlog::level::debug);  // the level of a warning that comes again
    return true;
  }();
  static_cast<void>(is_captured);
  warnings().str("");
}

std::vector<Subject> subjects() {
  forget_warnings();  // captures the log
  return {kernel_subject(), read_only_subject(), pack_subject(), record_subject(), torn_record_subject()};
}

bool has_warned(const std::string& text) {
  return warnings().str().find(text) != std::string::npos;
}

std::uint64_t count_calls(const Subject& subject, const Operation& operation) {
  const TemporaryDirectory directory;
  subject.make(directory / "root");
  const ScopedSystemFault counting({.calls = 0});
  static_cast<void>(operation.run(directory / "root"));
  return static_cast<std::uint64_t>(counting.calls());
}

std::size_t bytes_in(const std::filesystem::path& path) {
  struct stat status {};
  const bool exists = ::syscall(SYS_newfstatat, AT_FDCWD, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  return exists && S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) : 0;
}

Verdict without_leftovers(const std::filesystem::path& root, const std::string& extension) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == extension) return wrong("leftover " + it->path().native());
  }
  return {};
}

}  // namespace fa2::test
