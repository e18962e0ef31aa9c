// Files that rows of public structs are written to. FA2_UPDATE_GOLDEN=1 writes them.
#include "written_files.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace fa2::test;

std::vector<WrittenFile> fa2::test::written_files() {
  return {{"include/fa2/c_call.h", c_header()},
          {"bench/c_structs.py", ctypes_module()},
          {"docs/call.md", document()}};
}

TEST_CASE("written files: as their rows say") {
  for (const WrittenFile& written : written_files()) {
    const auto path = std::filesystem::path(FA2_SOURCE_DIR) / written.path;
    if (std::getenv("FA2_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << written.text;
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    INFO(written.path, "; FA2_UPDATE_GOLDEN=1 rewrites it");
    CHECK((text.str() == written.text));
  }
}
