// Compares files with what the rows of public structs say. fa2_write_files writes them, and so does FA2_UPDATE_GOLDEN=1.
#include "written_files.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

TEST_CASE("written files: agree with the rows of public structs") {
  for (const auto& [path, expected] : fa2::test::written_files(FA2_SOURCE_DIR)) {
    INFO(path, "; fa2_write_files writes it");
    REQUIRE_FALSE(expected.empty());
    if (std::getenv("FA2_UPDATE_GOLDEN") != nullptr)
      std::ofstream(std::filesystem::path(FA2_SOURCE_DIR) / path) << expected;
    std::ostringstream text;
    text << std::ifstream(std::filesystem::path(FA2_SOURCE_DIR) / path).rdbuf();
    CHECK((text.str() == expected));
  }
}
