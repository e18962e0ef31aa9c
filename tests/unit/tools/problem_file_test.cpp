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
        if (std::string(name) == "score_text") object[name] = {{"mod", "return 2.0f * score;"}};
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

TEST_CASE("problem file: texts of scores are there by content") {
  const ScoreTexts texts = {.bias = "return gain() * table(at.head, at.key);\n// a comment",
                            .mask = "return at.key < first();",
                            .captures = {{"table", CaptureType::bf16, 2},
                                         {"gain"},
                                         {"first", CaptureType::i32},
                                         {"flags", CaptureType::boolean, 0}}};
  PlannedProblem problem = PlannedProblem{{.head_dim = 64}, {}};
  problem.score_text = make_score_text(texts);
  const std::string line = line_of(problem);
  const Json printed = Json::parse(line).at("score_text");
  CHECK(printed.at("bias") == texts.bias.text);
  CHECK(printed.at("mask") == texts.mask.text);
  CHECK_FALSE(printed.contains("mod"));
  CHECK(printed.at("captures").size() == 4);
  CHECK(parse_problems(line, "f").at(0) == problem.normalized());
  // Content that this process has not made.
  const PlannedProblem other =
      parse_problems(R"({"head_dim": 64, "score_text": {"mod": "return 3.5f * score + n();", )"
                     R"("captures": [{"name": "n", "type": "i64", "dimensions": 0}]}})",
                     "f")
          .at(0);
  const ScoreTexts& made = score_texts(other.score_text);
  CHECK(made.mod.text == "return 3.5f * score + n();");
  REQUIRE(made.captures.size() == 1);
  CHECK(made.captures[0].type == CaptureType::i64);
  CHECK(made.captures[0].dimensions == 0);

  CHECK(complaint("score_text", {{"mask", "return (7;"}}).find("must close the brackets") !=
        std::string::npos);
  CHECK(complaint("score_text", Json::object()).find("must have at least one text") != std::string::npos);
  const std::string all = complaint(
      "score_text",
      {{"masks", "x"}, {"bias", 7}, {"captures", {{{"name", 7}, {"type", "f64"}, {"size", 1}}, 5}}});
  for (const char* part :
       {"masks = \"x\", must be bias, mod, mod_slope, mask, mask_block or captures",
        "bias = 7, must be a text", "captures[0].name = 7, must be a text",
        "captures[0].type = \"f64\", must be one of f16, bf16, f32, i32, i64, u8, bool",
        "captures[0].size = 1, must be name, type or dimensions", "captures[1] = 5, must be an object"}) {
    CAPTURE(all);
    CAPTURE(part);
    CHECK(all.find(part) != std::string::npos);
  }
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
