// JSON from files that fa2 may not have written.
#include <doctest/doctest.h>
#include <runtime/json_field.h>

#include <string>

using namespace fa2;

namespace {

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + "1" + std::string(depth, ']');
}

}  // namespace

TEST_CASE("JSON is parsed to a depth that no copy, text or destructor can overflow the stack with") {
  CHECK(parse_json(nested(kMaxJsonDepth)).is_array());
  CHECK(parse_json(nested(kMaxJsonDepth + 1)).is_discarded());
  CHECK(parse_json(nested(1'000'000)).is_discarded());
  CHECK(parse_json(R"({"a": )" + nested(1'000'000) + "}").is_discarded());
  CHECK(parse_json("{").is_discarded());
  CHECK(parse_json(R"({"a": [1, {"b": 2}]})")["a"][1]["b"] == 2);
}
