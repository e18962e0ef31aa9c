// Lays the sources out in a directory and runs the compiler there.
#include <fa2/errors.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <interpreter/host_compiler.h>
#include <runtime/env.h>
#include <runtime/file.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace fa2::interpreter {
namespace {

namespace fs = std::filesystem;

/// Where one kernel's sources lie while they are compiled, or for good if FA2_KEEP_SOURCE is set.
class SourceFolder {
 public:
  explicit SourceFolder(const KernelSource& source) {
    if (const auto keep = env("FA2_KEEP_SOURCE")) {
      path_ = fs::absolute(*keep) / source.key;
      kept_ = true;
      fs::create_directories(path_);
    } else {
      std::string name = (fs::temp_directory_path() / "fa2-host-XXXXXX").native();
      if (::mkdtemp(name.data()) == nullptr) throw_file_error("cannot create directory", name, errno);
      path_ = name;
    }
    for (const SourceFile& header : source.headers) write(header);
    write(source.main);
  }
  ~SourceFolder() {
    std::error_code ignored;
    if (!kept_) fs::remove_all(path_, ignored);
  }
  SourceFolder(const SourceFolder&) = delete;
  SourceFolder& operator=(const SourceFolder&) = delete;

  fs::path operator/(const char* name) const { return path_ / name; }
  const fs::path& path() const { return path_; }
  void keep() { kept_ = true; }
  bool is_for_a_debugger() const { return kept_; }

 private:
  void write(const SourceFile& file) const {
    const fs::path path = path_ / file.name;
    fs::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    out << file.text;
    if (!out.flush()) throw_file_error("cannot write", path, errno);
  }

  fs::path path_;
  bool kept_ = false;
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Exit status of a program found on the PATH, its output in a file; -1 if there is no such program.
int run(const std::vector<std::string>& command, const fs::path& output) {
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
  if (error != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

class HostCompiler final : public Compiler {
 public:
  KernelBinary compile(const KernelSource& source) override {
    SourceFolder folder(source);
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
  static std::string compile_with_any(const KernelSource& source, SourceFolder& folder) {
    const auto chosen = env("FA2_CXX");
    const std::vector<std::string> names =
        chosen ? std::vector{*chosen} : std::vector<std::string>{"c++", "g++", "clang++"};
    for (const std::string& name : names) {
      std::vector<std::string> command = {name};
      command.insert(command.end(), source.options.begin(), source.options.end());
      if (folder.is_for_a_debugger()) command.insert(command.end(), {"-O0", "-g"});
      for (const std::string& word : {std::string("-I"), folder.path().native(), std::string("-x"),
                                      std::string("c++"), (folder / source.main.name.c_str()).native(),
                                      std::string("-o"), (folder / "kernel.so").native()}) {
        command.push_back(word);
      }
      const int status = run(command, folder / "log");
      if (status == 0) return name;
      if (status > 0) {
        folder.keep();
        const std::string log = text_of(folder / "log");
        throw CompileError(
            fmt::format("{}: {} ended with status {}; source and log kept in {}\n{}", source.spec, name,
                        status, folder.path().native(), log.substr(0, 2000)),
            log, (folder / source.main.name.c_str()).native());
      }
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
