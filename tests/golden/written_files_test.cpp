// Compares files with what the rows of public structs say. fa2_write_files writes them, and so does FA2_UPDATE_GOLDEN=1.
#include "written_files.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

TEST_CASE("written files: agree with the rows of public structs") {
  for (const auto& file : fa2::test::written_files(FA2_SOURCE_DIR)) {
    const auto& [name, expected] = file;
    const std::filesystem::path path = std::filesystem::path(FA2_SOURCE_DIR) / name;
    INFO(path.string(), "; fa2_write_files writes it");
    REQUIRE_FALSE(expected.empty());
    if (std::getenv("FA2_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << expected;
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    CHECK((text.str() == expected));
  }
}
