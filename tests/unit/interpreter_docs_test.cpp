// docs/interpreter.md against the code: the lines that its debugger session stops at.
#include <doctest/doctest.h>
#include <tests/support/cache_fixtures.h>

#include <regex>
#include <sstream>
#include <string>

namespace {

std::string line_of(const std::string& file, int number) {
  std::istringstream lines(fa2::test::read_text(FA2_SOURCE_DIR "/templates/" + file));
  std::string line;
  for (int i = 0; i < number && std::getline(lines, line); ++i) continue;
  return lines ? line : "";
}

}  // namespace

TEST_CASE("interpreter.md: each frame's line is in the function or call that the frame is in") {
  const std::string document = fa2::test::read_text(FA2_SOURCE_DIR "/docs/interpreter.md");
  const std::regex frame(R"(#(\d+) +fa2::(\w+)<.*/(attention/\w+\.cuh):(\d+))");
  std::string callee;
  int frames = 0;
  for (std::sregex_iterator match(document.begin(), document.end(), frame), end; match != end; ++match) {
    const std::string line = line_of((*match)[3], std::stoi((*match)[4]));
    CAPTURE(match->str());
    CAPTURE(line);
    // The innermost frame stops in its function's first line, an outer one at the call of the one before.
    CHECK(line.find(callee.empty() ? "params.lse == nullptr" : callee + "<") != std::string::npos);
    callee = (*match)[2];
    ++frames;
  }
  CHECK(frames == 2);
}
