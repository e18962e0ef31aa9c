// Lays the sources out in a directory and runs the compiler there.
#include <fa2/errors.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <interpreter/host_compiler.h>
#include <interpreter/scratch_folder.h>
#include <runtime/env.h>
#include <runtime/file.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

namespace fa2::interpreter {
namespace {

namespace fs = std::filesystem;

/// Where one kernel's sources lie: while they are compiled, or for good if FA2_KEEP_SOURCE is set.
class SourceFolder {
 public:
  explicit SourceFolder(const KernelSource& source) {
    if (const auto keep = env("FA2_KEEP_SOURCE")) {
      path_ = fs::path(*keep) / source.key;
      std::error_code error;
      fs::create_directories(path_, error);
      if (!error) path_ = fs::absolute(path_, error);
      if (error) throw_file_error("FA2_KEEP_SOURCE: cannot create directory", path_, error.value());
    } else {
      path_ = scratch_.emplace().path();
    }
    for (const SourceFile& header : source.headers) write(header);
    write(source.main);
  }

  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }
  bool is_kept() const { return !scratch_; }

 private:
  void write(const SourceFile& file) const {
    const fs::path path = path_ / file.name;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) throw_file_error("cannot create directory", path.parent_path(), error.value());
    std::ofstream out(path, std::ios::binary);
    out << file.text;
    if (!out.flush()) throw_file_error("cannot write", path, errno);
  }

  std::optional<ScratchFolder> scratch_;
  fs::path path_;
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// How a program found on the PATH ended, as waitpid() tells it, its output in a file; nullopt if there is no
/// such program.
std::optional<int> run(const std::vector<std::string>& command, const fs::path& output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::nullopt;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  constexpr int kNotStarted = 127;  // what a child says that could not become the program
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted) return std::nullopt;
  return status;
}

/// No verdict on the source: the next call tries again.
[[noreturn]] void throw_killed(const KernelSource& source, const std::string& name, int signal) {
  throw Unavailable(fmt::format("{}: the compiler {} was killed by signal {} ({}){}", source.spec, name,
                                signal, ::strsignal(signal),
                                signal == SIGKILL ? "; the system does so where memory runs out" : ""));
}

[[noreturn]] void throw_failed(const KernelSource& source, const std::string& name, int status,
                               const SourceFolder& folder) {
  constexpr std::size_t kMostOfLog = 2000;
  const std::string log = text_of(folder / "log");
  const std::string where = folder.is_kept() ? "source and log kept in " + folder.path().native()
                                             : "FA2_KEEP_SOURCE=DIR keeps source and log in DIR";
  throw CompileError(fmt::format("{}: {} ended with status {}; {}\n{}", source.spec, name, status, where,
                                 log.substr(0, kMostOfLog)),
                     log, folder.is_kept() ? (folder / source.main.name).native() : "");
}

class HostCompiler final : public Compiler {
 public:
  KernelBinary compile(const KernelSource& source) override {
    const SourceFolder folder(source);
    const auto start = std::chrono::steady_clock::now();
    KernelBinary binary;
    binary.compiler = compile_with_any(source, folder);
    binary.compile_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    binary.key = source.key;
    binary.spec = source.spec;
    binary.arch = source.arch.name;
    binary.entry = source.entry;
    binary.resources.dynamic_shared_bytes = source.shared_bytes;
    binary.resources.threads = source.threads;
    const auto code = read_file(folder / "kernel.so");
    if (!code) throw CompileError(fmt::format("{}: the compiler wrote nothing", source.spec), "", "");
    binary.code = *code;
    return binary;
  }

 private:
  /// The compiler's name.
  static std::string compile_with_any(const KernelSource& source, const SourceFolder& folder) {
    const auto chosen = env("FA2_CXX");
    const std::vector<std::string> names =
        chosen ? std::vector{*chosen} : std::vector<std::string>{"c++", "g++", "clang++"};
    for (const std::string& name : names) {
      std::vector<std::string> command = {name};
      command.insert(command.end(), source.options.begin(), source.options.end());
      if (folder.is_kept()) command.insert(command.end(), {"-O0", "-g"});
      for (const std::string& word :
           {std::string("-I"), folder.path().native(), std::string("-x"), std::string("c++"),
            (folder / source.main.name).native(), std::string("-o"), (folder / "kernel.so").native()}) {
        command.push_back(word);
      }
      const std::optional<int> ending = run(command, folder / "log");
      if (!ending) continue;
      if (WIFSIGNALED(*ending)) throw_killed(source, name, WTERMSIG(*ending));
      if (WEXITSTATUS(*ending) != 0) throw_failed(source, name, WEXITSTATUS(*ending), folder);
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
