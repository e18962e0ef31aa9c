// The environment table: reading, and its agreement with docs/environment.md.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/env.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

std::set<std::string> table_names() {
  std::set<std::string> names;
  for (const fa2::EnvVariable& variable : fa2::environment()) names.insert(std::string(variable.name));
  return names;
}

}  // namespace

TEST_CASE("env reads variables of the table") {
  setenv("FA2_CONFIG", "tile_m=64", 1);
  CHECK(fa2::env("FA2_CONFIG") == "tile_m=64");
  setenv("FA2_CONFIG", "", 1);
  CHECK_FALSE(fa2::env("FA2_CONFIG").has_value());
  unsetenv("FA2_CONFIG");
  CHECK_FALSE(fa2::env("FA2_CONFIG").has_value());
}

TEST_CASE("env knows the system variables it honours and no others") {
  for (const char* name : {"XDG_CACHE_HOME", "HOME", "CUDA_HOME", "CUDA_PATH"}) CHECK_NOTHROW(fa2::env(name));
  for (const char* name : {"PATH", "FA2_CACHE", "FA2_CACHE_DIR2", ""}) {
    CAPTURE(name);
    CHECK_THROWS_AS(fa2::env(name), fa2::Error);
  }
}

TEST_CASE("every variable has a name of its own and a meaning of one line") {
  CHECK(table_names().size() == fa2::environment().size());
  for (const fa2::EnvVariable& variable : fa2::environment()) {
    CAPTURE(variable.name);
    CHECK(variable.name.substr(0, 4) == "FA2_");
    CHECK_FALSE(variable.meaning.empty());
    CHECK(variable.meaning.find('\n') == std::string_view::npos);
  }
}

TEST_CASE("docs/environment.md documents exactly the table, with the same defaults") {
  std::ifstream file(FA2_SOURCE_DIR "/docs/environment.md");
  REQUIRE(file.is_open());
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();

  std::set<std::string> documented;
  const std::regex name("FA2_[A-Z0-9_]+");
  for (std::sregex_iterator match(document.begin(), document.end(), name), end; match != end; ++match) {
    documented.insert(match->str());
  }
  CHECK(documented == table_names());

  for (const fa2::EnvVariable& variable : fa2::environment()) {
    const std::string fallback =
        variable.default_value.empty() ? "unset" : std::string(variable.default_value);
    const std::string row = "| `" + std::string(variable.name) + "` | " + fallback + " |";
    CAPTURE(row);
    CHECK(document.find(row) != std::string::npos);
  }
}
