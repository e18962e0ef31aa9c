// Problems as JSON lines: each test iterates PlannedProblem::visit.
#include <api/explanation.h>
#include <core/enum_words.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>
#include <tools/problem_file.h>
#include <tools/tuning_matrix.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

using namespace fa2;
using tools::parse_problems;

namespace {

using Json = nlohmann::json;

std::string line_of(const PlannedProblem& problem) {
  return Json::parse(to_json(problem)).dump() + "\n";
}

/// Returns the complaint about {"head_dim": 64, ...} with this field.
std::string complaint(const std::string& field, const Json& value) {
  Json object = {{"head_dim", 64}, {"seqlen_q", 8}, {"seqlen_k", 8}};
  object[field] = value;
  try {
    parse_problems(object.dump(), "f");
  } catch (const InvalidRequest& error) {
    return error.what();
  }
  return "";
}

template <class Value>
std::vector<Json> wrong_values(const Value&) {
  if constexpr (std::is_enum_v<Value>) {
    return {0, "best", nullptr};
  } else if constexpr (std::is_same_v<Value, bool>) {
    return {1, "true", nullptr};
  } else if constexpr (kIsOptional<Value>) {
    return {1.5, "1", true, std::uint64_t{1} << 63};
  } else {
    return {1.5, "1", true, nullptr, std::uint64_t{1} << (8 * sizeof(Value) - 1)};
  }
}

}  // namespace

TEST_CASE("problem file: a printed problem is read back") {
  std::string lines;
  const std::vector<PlannedProblem> standard = tools::standard_matrix();
  for (const PlannedProblem& problem : standard) lines += line_of(problem) + "\n";
  CHECK(parse_problems(lines, "f") == standard);
}

TEST_CASE("problem file: every field is read, alone, and reset by the value that reports print for none") {
  const PlannedProblem base = PlannedProblem{{.head_dim = 64, .seqlen_q = 8, .seqlen_k = 8}, {}}.normalized();
  PlannedProblem::visit(
      [&](const char* name, FieldRole, const auto& field) {
        using Value = std::remove_cvref_t<decltype(field)>;
        CAPTURE(std::string(name));
        Json object = Json::parse(to_json(base));
        if constexpr (std::is_enum_v<Value>) {
          object[name] = word_of(static_cast<Value>(1));
        } else if constexpr (std::is_same_v<Value, bool>) {
          object[name] = true;
        } else {
          object[name] = 16;
        }
        if (std::string(name) == "score_text")
          object[name] = make_score_text({.mod = "return 2.0f * score;"});
        if (std::string(name) == "heads_kv") object["heads_q"] = 16;
        if (std::string(name).starts_with("total")) object["varlen"] = true;
        if (std::string(name).find("page") != std::string::npos) {
          object["varlen"] = true;
          object["page_size"] = object["page_count"] = 16;
        }
        const std::vector<PlannedProblem> read = parse_problems(object.dump(), "f");
        REQUIRE(read.size() == 1);
        CHECK(read[0] != base);
        CHECK(Json::parse(to_json(read[0])).at(name) == object[name]);
      },
      base);
}

TEST_CASE("problem file: a missing field has its default") {
  const auto read = parse_problems("{\"head_dim\":64}\n\n{\"head_dim\":8,\"window_left\":null}", "f");
  REQUIRE(read.size() == 2);
  CHECK(read[0] == PlannedProblem{{.head_dim = 64}, {}}.normalized());
  CHECK(read[1] == PlannedProblem{{.head_dim = 8}, {}}.normalized());
}

TEST_CASE("problem file: every field's error says what it accepts") {
  CHECK(complaint("head_dim", 64).empty());
  const PlannedProblem problem;
  PlannedProblem::visit(
      [&](const std::string& name, FieldRole, const auto& field) {
        for (const Json& value : wrong_values(field)) {
          CAPTURE(name);
          CAPTURE(value);
          CHECK(complaint(name, value).find("f:1: " + name + " = " + value.dump() + ", must be ") !=
                std::string::npos);
        }
      },
      problem);
}

TEST_CASE("problem file: everything wrong is listed, with its line") {
  std::string said;
  try {
    parse_problems("{\"head_dims\":64, \"dtype\":\"f32\"}\n[]\n{\"head_dim\":7}\n{", "f");
  } catch (const InvalidRequest& error) {
    CHECK(error.violations().size() == 5);
    said = error.what();
  }
  for (const char* part :
       {"f:1: head_dims = 64, must be a field of a problem: did you mean head_dim?",
        "f:1: dtype = \"f32\", must be one of f16, bf16", "f:2 = \"[]\", must be a problem",
        "f:3: head_dim = 7, must be a multiple of 8", "f:4 = \"{\", must be a problem"}) {
    CAPTURE(part);
    CHECK(said.find(part) != std::string::npos);
  }
  CHECK_THROWS_WITH_AS(parse_problems("\n", "f"), doctest::Contains("f = empty"), InvalidRequest);
}

TEST_CASE("problem file: a file that cannot be read is named") {
  const test::TemporaryDirectory dir;
  const std::string missing = (dir / "none").string() + ": No such file";
  CHECK_THROWS_WITH_AS(tools::read_problems(dir / "none"), doctest::Contains(missing.c_str()), CacheError);
  test::write_text(dir / "f", "{\"head_dim\":64}");
  CHECK(tools::read_problems(dir / "f").size() == 1);
}
