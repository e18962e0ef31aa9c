// Compares docs/interpreter.md with the code: its debugger session, and the lines where it stops.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sched.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/sanitizers.h>
#include <tests/support/temporary_directory.h>

#include <cstdlib>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

using fa2::test::read_text;
using fa2::test::TemporaryDirectory;

std::string line_of(const std::string& file, int number) {
  std::istringstream lines(fa2::test::read_text(FA2_SOURCE_DIR "/templates/" + file));
  std::string line;
  for (int i = 0; i < number && std::getline(lines, line); ++i) continue;
  return lines ? line : "";
}

/// Returns the number of the first line that contains `part`.
int number_of(const std::string& file, const std::string& part) {
  int number = 1;
  while (number < 1000 && line_of(file, number).find(part) == std::string::npos) ++number;
  return number;
}

}  // namespace

TEST_CASE("interpreter.md: each frame's line lies in the function or call that the frame names") {
  const std::string document = fa2::test::read_text(FA2_SOURCE_DIR "/docs/interpreter.md");
  const std::regex frame(R"(#(\d+) +fa2::(\w+)<.*/(attention/[\w/]+\.cuh):(\d+))");
  std::string callee;
  int frames = 0;
  for (std::sregex_iterator match(document.begin(), document.end(), frame), end; match != end; ++match) {
    const std::string line = line_of((*match)[3], std::stoi((*match)[4]));
    CAPTURE(match->str());
    CAPTURE(line);
    // The innermost frame stops in its function's first line, an outer one at its call of the inner one.
    CHECK(line.find(callee.empty() ? "params.lse == nullptr" : callee + "<") != std::string::npos);
    callee = (*match)[2];
    ++frames;
  }
  CHECK(frames == 2);
}

#ifdef FA2_COMMAND

namespace {

/// Returns the lines of the fenced block that contains `part`.
std::vector<std::string> block_with(const std::string& document, const std::string& part) {
  const std::size_t at = document.find(part), begin = document.rfind("```\n", at) + 4;
  std::istringstream text(document.substr(begin, document.find("```", at) - begin));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

int first_cpu() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &set)) ++cpu;
  return cpu;
}

/// Returns gdb's output for `commands` on `fa2 ARGUMENTS`, run in the repository's folder and on one core.
std::string output_of_gdb(const TemporaryDirectory& dir, const std::string& variables,
                          const std::vector<std::string>& commands, const std::string& arguments) {
  const std::string out = (dir / "out").native();
  std::string line =
      "cd " FA2_SOURCE_DIR " && env CUDA_VISIBLE_DEVICES= FA2_CACHE_DIR=" + (dir / "cache").native() + " " +
      variables + " taskset -c " + std::to_string(first_cpu()) + " gdb -nx -batch";
  for (const std::string& command : commands) line += " -ex '" + command + "'";
  line += " --args " FA2_COMMAND " " + arguments + " >" + out + " 2>&1 </dev/null";
  CHECK(std::system(line.c_str()) != -1);
  return read_text(out);
}

bool cannot_debug(const TemporaryDirectory& dir) {
  if (fa2::test::cannot_interpret()) return true;
  if (output_of_gdb(dir, "", {"run"}, "--version").find("exited normally") != std::string::npos) return false;
  MESSAGE("skipped: gdb is not installed, or may not run a program here");
  return true;
}

/// Returns whether gdb cannot call the program's functions. gdb 13 cannot on a processor whose registers it does not know, and
/// waits for ever when a condition has called one.
bool cannot_call(const TemporaryDirectory& dir) {
  const std::string text =
      output_of_gdb(dir, "", {"break main", "run", "print ((int (*)(void))getpid)() > 0"}, "--version");
  if (text.find("\n$1 = 1\n") != std::string::npos) return false;
  MESSAGE("skipped: gdb cannot call functions of a program here");
  return true;
}

/// Returns a pattern of a frame, with any text for each "...", and with its address, which gdb may print.
std::regex pattern_of(const std::string& text) {
  const std::string escaped = std::regex_replace(text, std::regex(R"([.*+?()\[\]{}|^$\\])"), R"(\$&)");
  const std::string shortened = std::regex_replace(escaped, std::regex(R"((\\\.){3})"), ".*");
  return std::regex(std::regex_replace(shortened, std::regex("^#[0-9]+ +"), "$&(0x[0-9a-f]+ in )?"));
}

}  // namespace

TEST_CASE("interpreter.md: the debugger session runs as shown") {
  const TemporaryDirectory dir;
  if (cannot_debug(dir) || cannot_call(dir)) return;
  const std::string begin_of_command = " fa2 ", prompt = "(gdb) ";
  std::vector<std::string> commands, frames;
  std::string arguments;
  std::size_t prints = 0;
  for (const std::string& line : block_with(read_text(FA2_SOURCE_DIR "/docs/interpreter.md"), "gdb --args")) {
    if (line.starts_with(prompt)) commands.push_back(line.substr(prompt.size()));
    if (line.starts_with("#"))
      frames.push_back(std::regex_replace(line, std::regex("/tmp/tmp[^/]*"), dir.path().native()));
    if (line.starts_with("taskset"))
      arguments = line.substr(line.find(begin_of_command) + begin_of_command.size());
    prints += line.starts_with(prompt + "print ");
  }
  arguments = std::regex_replace(arguments, std::regex("o\\.npy"), (dir / "o.npy").native());
  const std::string text = output_of_gdb(dir, "FA2_KEEP_SOURCE=" + dir.path().native(), commands, arguments);
  CAPTURE(text);
  CHECK(frames.size() == 2);
  for (const std::string& frame : frames) {
    CAPTURE(frame);
    CHECK(std::regex_search(text, pattern_of(frame)));
  }
  CHECK(prints == 2);
  for (std::size_t i = 1; i <= prints; ++i)
    CHECK(text.find("\n$" + std::to_string(i) + " = {") != std::string::npos);
}

TEST_CASE("interpreter.md: without kept sources a debugger finds those of the repository") {
  const TemporaryDirectory dir;
  if (cannot_debug(dir)) return;
  const std::string epilogue = "attention/common/epilogue.cuh", kernel = "attention/forward/sm80/kernel.cuh";
  const int in_epilogue = number_of(epilogue, "params.lse == nullptr");
  const std::string text = output_of_gdb(
      dir, "",
      {"set breakpoint pending on", "break epilogue.cuh:" + std::to_string(in_epilogue), "run", "bt 2"},
      "run --device interpreter --q samples/q.npy --k samples/k.npy --v samples/v.npy --out " +
          (dir / "o.npy").native());
  CAPTURE(text);
  CHECK(text.find(fmt::format("\n{}\t", in_epilogue) + line_of(epilogue, in_epilogue)) != std::string::npos);
  CHECK(text.find(fmt::format(" templates/{}:{}", kernel, number_of(kernel, "store_lse<"))) !=
        std::string::npos);
}

#else
TEST_CASE("interpreter.md: sessions") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif
