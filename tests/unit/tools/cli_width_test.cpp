// The fa2 command's output for people fits a terminal of 80 columns.
#include <doctest/doctest.h>
#include <runtime/disk_cache.h>
#include <tests/support/command.h>

#include <sstream>
#include <string>

#ifdef FA2_COMMAND

namespace {

using namespace fa2::test;

/// Returns the lines of more than 80 bytes. A non-ASCII character counts as several.
std::string too_long(const std::string& text) {
  std::istringstream lines(text);
  std::string line, found;
  while (std::getline(lines, line)) {
    if (line.size() > 80) found += line + "\n";
  }
  return found;
}

const char* const kVerbs[] = {"info", "run", "bench", "tune", "precompile", "cache", "explain", "dump"};

}  // namespace

TEST_CASE("cli width: all help fits 80 columns, in a terminal or not") {
  const Command fa2;
  CHECK(too_long(fa2.run("--help").out) == "");
  for (const std::string verb : kVerbs) {
    CAPTURE(verb);
    const Result help = fa2.run(verb + " --help");
    CHECK(help.status == 0);
    CHECK(too_long(help.out) == "");
  }
}

TEST_CASE("cli width: a long command of an example continues after a backslash") {
  const Command fa2;
  const std::string help = fa2.run("run --help").out;
  CHECK(help.find(" \\\n      ") != std::string::npos);
}

TEST_CASE("cli width: tables fit COLUMNS; a pipe without it gets whole lines") {
  const Command fa2;
  const std::string records = " --arch sm_80 --head-dim 16 --dtype f16 --causal no";
  REQUIRE(fa2::DiskCache(fa2.file("pack"), fa2::DiskCache::Access::read_write).store(small_binary()));
  const std::string long_path =
      "FA2_CACHE_PATH=" + fa2.file("pack").string() + "/./././././././././././././././././.";
  for (const std::string& command :
       {std::string("info"), "precompile --dry-run" + records,
        "precompile" + records + fa2.option("--out", "other"), "cache list" + fa2.option("--dir", "pack"),
        std::string("cache list"), std::string("cache prune"),
        std::string("tune --matrix standard --dry-run"),
        std::string("precompile --dry-run --arch h100 --hf " FA2_SOURCE_DIR
                    "/tests/hf_configs/gemma3.json")}) {
    CAPTURE(command);
    const Result narrow = fa2.run(command, long_path + " FA2_NVRTC=/none.so COLUMNS=80");
    CHECK_FALSE(narrow.out.empty());
    CHECK(too_long(narrow.out) == "");
  }
  CHECK_FALSE(too_long(fa2.run("info", "COLUMNS=").out).empty());
}

TEST_CASE("cli width: explanations fit COLUMNS") {
  const Command fa2;
  const Result wide = fa2.run("explain --arch interpreter --head-dim 16", "COLUMNS=");
  REQUIRE(wide.status == 0);
  CHECK_FALSE(too_long(wide.out).empty());
  CHECK(too_long(fa2.run("explain --arch interpreter --head-dim 16", "COLUMNS=80").out) == "");
}

#else
TEST_CASE("cli width") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif
