// Files that rows of public structs are written to. FA2_UPDATE_GOLDEN=1 writes them.
#include "written_files.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace fa2::test;

namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(std::filesystem::path(FA2_SOURCE_DIR) / path).rdbuf();
  return text.str();
}

/// Holds the file to `expected`, or writes it.
void check(const std::string& path, const std::string& expected) {
  if (std::getenv("FA2_UPDATE_GOLDEN") != nullptr)
    std::ofstream(std::filesystem::path(FA2_SOURCE_DIR) / path) << expected;
  INFO(path, "; FA2_UPDATE_GOLDEN=1 rewrites it");
  CHECK((text_of(path) == expected));
}

}  // namespace

TEST_CASE("written files: as the rows of public structs say") {
  check("include/fa2/c_call.h", c_header());
  check("bench/c_structs.py", ctypes_module());
  check("docs/call.md", document());
}

TEST_CASE("written files: blocks between marks of hand-written files") {
  for (const WrittenBlock& block : written_blocks()) {
    CAPTURE(block.path);
    CAPTURE(block.begin);
    const std::string expected = with_block(text_of(block.path), block);
    REQUIRE_FALSE(expected.empty());
    check(block.path, expected);
  }
}
