// The table of environment variables: reading, and agreement with docs/environment.md.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/env.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
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

TEST_CASE("env knows the system variables that it honours and no others") {
  for (const char* name : {"XDG_CACHE_HOME", "HOME", "CUDA_HOME", "CUDA_PATH", "COLUMNS"})
    CHECK_NOTHROW(fa2::env(name));
  for (const char* name : {"PATH", "FA2_CACHE", "FA2_CACHE_DIR2", ""}) {
    CAPTURE(name);
    CHECK_THROWS_AS(fa2::env(name), fa2::Error);
  }
}

TEST_CASE("every variable has a unique name, and a meaning of one line") {
  CHECK(table_names().size() == fa2::environment().size());
  for (const fa2::EnvVariable& variable : fa2::environment()) {
    CAPTURE(variable.name);
    CHECK(variable.name.substr(0, 4) == "FA2_");
    CHECK_FALSE(variable.meaning.empty());
    CHECK(variable.meaning.find('\n') == std::string_view::npos);
  }
}

TEST_CASE("docs/environment.md documents exactly the table, with the same defaults and values") {
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
    const std::string row =
        "| `" + std::string(variable.name) + "` | " + fallback + " | " + std::string(variable.values) + " |";
    CAPTURE(row);
    CHECK(document.find(row) != std::string::npos);
  }
}

TEST_CASE("env: every default that is a value is valid") {
  for (const fa2::EnvVariable& variable : fa2::environment()) {
    CAPTURE(variable.name);
    CHECK_FALSE(variable.values.empty());
    if (variable.check == nullptr || variable.default_value.empty()) continue;
    CHECK(fa2::violations_of_variable(variable.name, std::string(variable.default_value)).empty());
  }
}

TEST_CASE("env: every bad value of a variable with rules is named, with what was expected") {
  const std::string bad[] = {
      "abc",  "yes", "-1",  "1.5",    "0x10", " ",    "on ", "ON",   "1e3", "99999999999999999999",
      "\xff", "é",   "a=b", "off,on", "null", "true", "./x", "on\n", ",",   std::string(1 << 20, 'x')};
  static_assert(std::size(bad) == 20);
  int checked = 0;
  for (const fa2::EnvVariable& variable : fa2::environment()) {
    if (variable.check == nullptr) continue;
    ++checked;
    for (const std::string& value : bad) {
      CAPTURE(variable.name);
      CAPTURE(value.substr(0, 40));
      const auto found = fa2::violations_of_variable(variable.name, value);
      REQUIRE_FALSE(found.empty());
      CHECK(found[0].field.find(variable.name) == 0);
      CHECK(found[0].rule.find("must be") == 0);
      const std::string message = fa2::InvalidRequest(found).what();
      CHECK(message.size() < 65 * 1024);
    }
  }
  CHECK(checked == 11);
}

TEST_CASE("env: numbers and words at their limits") {
  const auto takes = [](const char* name, const char* value) {
    return fa2::violations_of_variable(name, value).empty();
  };
  CHECK(takes("FA2_CACHE_MAX_MB", "0"));
  CHECK(takes("FA2_CACHE_MAX_MB", "4294967295"));
  CHECK_FALSE(takes("FA2_CACHE_MAX_MB", "4294967296"));
  CHECK(takes("FA2_TUNE_BUDGET_MS", "3600000"));
  CHECK_FALSE(takes("FA2_TUNE_BUDGET_MS", "3600001"));
  CHECK(takes("FA2_INTERPRETER", "late,seed=4294967295,unchecked"));
  CHECK_FALSE(takes("FA2_INTERPRETER", "seed=4294967296"));
  CHECK_FALSE(takes("FA2_INTERPRETER", "seed=N"));
  CHECK(takes("FA2_CACHE_DIR", "anything"));
}

TEST_CASE("env: checked_env returns the value or the default, or says what is expected") {
  unsetenv("FA2_JIT");
  CHECK(fa2::checked_env("FA2_JIT") == "on");
  setenv("FA2_JIT", "off", 1);
  CHECK(fa2::checked_env("FA2_JIT") == "off");
  setenv("FA2_JIT", "no", 1);
  CHECK_THROWS_WITH_AS(fa2::checked_env("FA2_JIT"),
                       doctest::Contains("FA2_JIT = \"no\", must be one of on, off, lazy"),
                       fa2::InvalidRequest);
  unsetenv("FA2_JIT");
}

TEST_CASE("env: names that fa2 does not know are found, with a suggestion") {
  setenv("FA2_CONFGI", "x", 1);
  setenv("FA2_SOMETHING_ELSE", "y", 1);
  setenv("FA2_EMPTY", "", 1);
  setenv("NOT_FA2_JIT", "off", 1);
  setenv("FA2_LIB_DIR", "build", 1);
  std::string text;
  for (const fa2::Violation& violation : fa2::unknown_variables()) text += to_string(violation) + "\n";
  CHECK(text.find("FA2_CONFGI = \"x\", must be a variable of fa2: did you mean FA2_CONFIG?") !=
        std::string::npos);
  CHECK(text.find("FA2_SOMETHING_ELSE = \"y\", must be a variable of fa2: see `fa2 info`") !=
        std::string::npos);
  CHECK(text.find("FA2_EMPTY") == std::string::npos);
  CHECK(text.find("FA2_JIT") == std::string::npos);
  CHECK(text.find("FA2_LIB_DIR") == std::string::npos);
  for (const char* name : {"FA2_CONFGI", "FA2_SOMETHING_ELSE", "FA2_EMPTY", "NOT_FA2_JIT", "FA2_LIB_DIR"})
    unsetenv(name);
}
