// A new member of a call needs only a member and a row in a public header. All written files follow from
// them.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "../support/temporary_directory.h"

namespace {

const std::string kSource = FA2_SOURCE_DIR;

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// A copy of a public header into which lines can be inserted.
class Header {
 public:
  Header(const std::filesystem::path& folder, const std::string& name)
      : path_(folder / name), text_(text_of(kSource + "/include/fa2/" + name)) {}
  ~Header() { std::ofstream(path_) << text_; }
  Header(const Header&) = delete;
  Header& operator=(const Header&) = delete;

  void put(const std::string& lines, const std::string& before) {
    const std::size_t at = text_.find(before);
    CAPTURE(before);
    REQUIRE(at != std::string::npos);
    text_.insert(at, lines);
  }

 private:
  std::filesystem::path path_;
  std::string text_;
};

/// Adds a score variant with a number per head, and an optional table with an entry per sequence.
void add_members(const std::filesystem::path& folder) {
  Header problem(folder, "problem.h");
  problem.put("bool tilt = false;\n", "bool sinks = false;");
  problem.put("row(\"tilt\", &P::tilt).help(\"scores are tilted\"),", "row(\"sinks\", &P::sinks)");
  Header args(folder, "args.h");
  args.put("const float* tilts = nullptr;\nconst std::int32_t* first_keys = nullptr;\n",
           "const float* sinks = nullptr;");
  args.put(
      "row(\"tilts\", &A::tilts).shape(\"(heads_q)\").used_if(\"tilt\"),"
      "row(\"first_keys\", &A::first_keys).shape(\"(batch)\").used_if(\"varlen\").optional(),",
      "row(\"sinks\", &A::sinks)");
}

constexpr const char* kProgram = R"(
#include "written_files.h"
#include <iostream>
int main() {
  using namespace fa2::test;
  std::cout << c_header() << ctypes_module() << document();
  for (const WrittenBlock& block : written_blocks())
    for (const std::string& line : block.lines) std::cout << block.path << ": " << line << "\n";
})";

}  // namespace

TEST_CASE("new row: a number per head and a table take two edited headers, and reach every written file") {
  const fa2::test::TemporaryDirectory scratch;
  std::filesystem::create_directories(scratch / "fa2");
  add_members(scratch / "fa2");
  std::ofstream(scratch / "main.cpp") << kProgram;
  const std::string folder = scratch.path().string(), golden = kSource + "/tests/golden";
  const std::string compile = "c++ -std=c++20 -w -DFMT_HEADER_ONLY -I" + folder + " -I" + golden + " -I" +
                              kSource + " -I" + kSource + "/include " + golden + "/write_*.cpp " + folder +
                              "/main.cpp -o " + folder + "/write";
  REQUIRE(std::system(compile.c_str()) == 0);
  REQUIRE(std::system((folder + "/write > " + folder + "/written").c_str()) == 0);
  const std::string written = text_of(scratch / "written");
  for (const char* const line :
       {"  int32_t tilt; /* scores are tilted; 0 or 1 */", "  const float* tilts;",
        "  const int32_t* first_keys;", ", /* tilts: (heads_q); float32; given with tilt */",
        ", /* first_keys: (batch); int32; optional with varlen */", "(\"first_keys\", C.c_void_p)",
        "| tilts | const float* | tilts | null |", "python/fa2/_call.py: first_keys: Any",
        "python/fa2/_attention.py: tilts,", "python/fa2/_torch_ops.py: \"Tensor? first_keys, \"",
        "python/src/numbers.c: FIELD(tilt),"}) {
    CAPTURE(line);
    CHECK(written.find(line) != std::string::npos);
  }
}
