// Writes the sources to a folder and runs the compiler there.
#include <fa2/errors.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <generator/template_set.h>
#include <interpreter/host_compiler.h>
#include <interpreter/scratch_folder.h>
#include <runtime/env.h>
#include <runtime/file.h>
#include <runtime/interrupt.h>
#include <runtime/trust.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

namespace fa2::interpreter {
namespace {

namespace fs = std::filesystem;

/// The folders of one compilation. The compiler writes to a scratch folder. Sources lie there too, unless
/// FA2_KEEP_SOURCE names a folder.
class Workplace {
 public:
  explicit Workplace(const KernelSource& source) {
    const auto keep = env("FA2_KEEP_SOURCE");
    try {
      if (keep) open_kept(*keep, source.key);
      write_sources(source);
    } catch (const CacheError& error) {
      if (!keep) throw;
      throw CacheError(fmt::format(
          "FA2_KEEP_SOURCE = {}, must be a folder to which only this user and root can write: {}; or name "
          "another folder",
          *keep, error.what()));
    }
  }

  bool keeps_sources() const { return !root_.empty(); }
  fs::path sources() const { return keeps_sources() ? root_ / key_ : scratch_.path(); }
  const fs::path& scratch() const { return scratch_.path(); }

  /// Writes a file next to the sources.
  void write(const SourceFile& file) const {
    const FileDescriptor out = keeps_sources() ? open_kept_file(file.name) : open_scratch_file(file.name);
    // A kept file has its own name. For others, faults, errors and a debugger show a name in the repository,
    // which an editor can open.
    const std::string line =
        keeps_sources() ? "" : fmt::format("#line 1 \"{}\"\n", path_in_repository(file.name));
    write_all(out, line.data(), line.size(), sources() / file.name);
    write_all(out, file.text.data(), file.text.size(), sources() / file.name);
  }

 private:
  static constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;

  void open_kept(const std::string& folder, const std::string& key) {
    root_ = fs::absolute(folder);
    if (!root_.has_filename()) root_ = root_.parent_path();  // a trailing slash would follow a link
    key_ = key;
    make_private_directories(root_);
    require_trusted_folder(root_);
  }

  void write_sources(const KernelSource& source) const {
    for (const SourceFile& header : source.headers) write(header);
    write(source.main);
  }

  FileDescriptor open_kept_file(const fs::path& name) const {
    const fs::path below = key_ / name;
    open_trusted_folder(root_, below.parent_path(), true);
    return open_trusted_file(root_, below, kNew);
  }

  FileDescriptor open_scratch_file(const fs::path& name) const {
    const fs::path path = scratch_.path() / name;
    make_private_directories(path.parent_path());
    FileDescriptor file(::open(path.c_str(), kNew | O_CLOEXEC, 0600));
    if (!file) throw_file_error("cannot write", path, errno);
    return file;
  }

  ScratchFolder scratch_;
  fs::path root_, key_;  ///< empty unless sources are kept
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns this process's environment, with TMPDIR = `scratch` for the compiler and its messages in English.
std::vector<std::string> environment_of(const fs::path& scratch) {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("TMPDIR=") && !text.starts_with("LC_ALL=")) variables.emplace_back(text);
  }
  variables.push_back("TMPDIR=" + scratch.native());
  variables.emplace_back("LC_ALL=C");
  return variables;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Starts a program from the PATH in its own process group, with its output in `scratch`/log. Returns nullopt
/// if it cannot be started.
std::optional<pid_t> start(const std::vector<std::string>& command, const fs::path& scratch) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, (scratch / "log").c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const std::vector<std::string> variables = environment_of(scratch);
  const std::vector<char*> words = pointers_to(command);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, words[0], &actions, &attributes, words.data(), pointers_to(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? std::optional(child) : std::nullopt;
}

/// Returns the child's status, as from waitpid(). @throws Interrupted after the child and its children are
/// dead.
int wait_for(pid_t child) {
  using namespace std::chrono_literals;
  Interruption interruption;
  int status = 0;
  const auto ends = [&](int options) {
    pid_t ended = 0;
    while ((ended = ::waitpid(child, &status, options)) < 0 && errno == EINTR) continue;
    return ended != 0;
  };
  try {
    for (; !ends(WNOHANG); std::this_thread::sleep_for(2ms)) interruption.check();
  } catch (const Interrupted&) {
    ::kill(-child, SIGKILL);
    ends(0);
    throw;
  }
  return status;
}

/// Returns the command's status; nullopt if there is no such program.
std::optional<int> run(const std::vector<std::string>& command, const fs::path& scratch) {
  const std::optional<pid_t> child = start(command, scratch);
  if (!child) return std::nullopt;
  const int status = wait_for(*child);
  constexpr int kNotStarted = 127;  // status of a child that could not start the program
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted) return std::nullopt;
  return status;
}

/// Signals with which a user or the system ends a process. Other signals mean a crash.
constexpr std::pair<int, std::string_view> kEndingSignals[] = {{SIGHUP, "Hangup"},
                                                               {SIGINT, "Interrupt"},
                                                               {SIGQUIT, "Quit"},
                                                               {SIGKILL, "Killed"},
                                                               {SIGTERM, "Terminated"}};

/// Returns the signal that ended a child of the compiler, or 0. GCC reports it as "fatal error: Killed signal
/// terminated program cc1plus" or "fatal error: ld terminated with signal 9 [Killed]", Clang as "unable to
/// execute command: Killed".
int signal_in(const std::string& log) {
  for (const auto& [signal, name] : kEndingSignals) {
    const std::string word(name);
    for (const std::string& report :
         {"error: " + word + " signal terminated", "[" + word + "]", "execute command: " + word})
      if (log.find(report) != log.npos) return signal;
  }
  return 0;
}

/// @throws Interrupted, Unavailable if a signal ended the compiler. Neither judges the source, so the next
/// call tries again.
void require_alive(const KernelSource& source, const std::string& name, int status, const std::string& log) {
  const bool failed = WIFEXITED(status) && WEXITSTATUS(status) != 0;
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : failed ? signal_in(log) : 0;
  if (signal == 0) return;
  const std::string message =
      fmt::format("{}: the compiler {} was killed by signal {} ({}){}", source.spec, name, signal,
                  ::strsignal(signal), signal == SIGKILL ? "; the system does so when memory runs out" : "");
  if (std::ranges::find(kEndingSignals, signal, &std::pair<int, std::string_view>::first) !=
      std::end(kEndingSignals))
    throw Interrupted(message);
  throw Unavailable(message);
}

[[noreturn]] void throw_failed(const KernelSource& source, const std::string& name, int status,
                               const std::string& log, const Workplace& place) {
  constexpr std::size_t kMostOfLog = 2000;
  const std::string where = place.keeps_sources() ? "source and log kept in " + place.sources().native()
                                                  : "FA2_KEEP_SOURCE=DIR keeps source and log in DIR";
  throw CompileError(fmt::format("{}: {} ended with status {}; {}\n{}", source.spec, name, status, where,
                                 log.substr(0, kMostOfLog)),
                     log, place.keeps_sources() ? (place.sources() / source.main.name).native() : "");
}

class HostCompiler final : public Compiler {
 public:
  KernelBinary compile(const KernelSource& source) override {
    const Workplace place(source);
    const auto start = std::chrono::steady_clock::now();
    KernelBinary binary;
    binary.compiler = compile_with_any(source, place);
    binary.compile_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    binary.key = source.key;
    binary.spec = source.spec;
    binary.arch = source.arch.name;
    binary.entry = source.entry;
    binary.resources.dynamic_shared_bytes = source.shared_bytes;
    binary.resources.threads = source.threads;
    const auto code = read_file(place.scratch() / "kernel.so");
    if (!code) throw CompileError(fmt::format("{}: the compiler wrote nothing", source.spec), "", "");
    binary.code = *code;
    return binary;
  }

 private:
  /// Returns the name of the compiler that compiled the kernel.
  static std::string compile_with_any(const KernelSource& source, const Workplace& place) {
    const auto chosen = env("FA2_CXX");
    const std::vector<std::string> names =
        chosen ? std::vector{*chosen} : std::vector<std::string>{"c++", "g++", "clang++"};
    for (const std::string& name : names) {
      std::vector<std::string> command = {name};
      command.insert(command.end(), source.options.begin(), source.options.end());
      if (place.keeps_sources()) command.insert(command.end(), {"-O0", "-g"});
      for (const std::string& word : {std::string("-I"), place.sources().native(), std::string("-x"),
                                      std::string("c++"), (place.sources() / source.main.name).native(),
                                      std::string("-o"), (place.scratch() / "kernel.so").native()}) {
        command.push_back(word);
      }
      const std::optional<int> ending = run(command, place.scratch());
      if (!ending) continue;
      const std::string log = text_of(place.scratch() / "log");
      if (place.keeps_sources()) place.write({"log", log});
      require_alive(source, name, *ending, log);
      if (WEXITSTATUS(*ending) != 0) throw_failed(source, name, WEXITSTATUS(*ending), log, place);
      return name;
    }
    throw Unavailable(
        fmt::format("interpreting a kernel on the CPU needs a C++ compiler, and none of {} could be started. "
                    "Install one, or set FA2_CXX",
                    fmt::join(names, ", ")));
  }
};

}  // namespace

std::unique_ptr<Compiler> make_host_compiler() {
  return std::make_unique<HostCompiler>();
}

}  // namespace fa2::interpreter
