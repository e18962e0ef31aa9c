// Exchanges one field of a JSON object.
#include "hostile_json.h"

#include <array>
#include <utility>

namespace fa2::test {
namespace {

using nlohmann::json;

std::string nested(std::size_t depth, const std::string& open, const std::string& close) {
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) text += open;
  text += "1";
  for (std::size_t i = 0; i < depth; ++i) text += close;
  return text;
}

std::string hostile_value(Random& random) {
  static const std::array<std::string, 24> kValues = {"null",
                                                      "true",
                                                      "false",
                                                      "\"\"",
                                                      "\"text\"",
                                                      "[]",
                                                      "{}",
                                                      "[1]",
                                                      "-1",
                                                      "0",
                                                      "1.5",
                                                      "1e999",
                                                      "-1e308",
                                                      "NaN",
                                                      "Infinity",
                                                      "2147483648",
                                                      "9223372036854775807",
                                                      "9223372036854775808",
                                                      "18446744073709551615",
                                                      "99999999999999999999",
                                                      "\"\xff\xfe\"",
                                                      "\"\\ud800\"",
                                                      "\"\\u0000\"",
                                                      " "};
  const std::size_t choice = below(random, kValues.size() + 3);
  if (choice < kValues.size()) return kValues[choice];
  if (choice == kValues.size()) return nested(50000, "[", "]");
  if (choice == kValues.size() + 1) return nested(50000, "{\"a\":", "}");
  return "\"" + std::string(50000, 'x') + "\"";
}

/// Returns a random field of the object, or of an object in it.
json& some_field(json& object, Random& random) {
  auto field = object.begin();
  std::advance(field, static_cast<std::ptrdiff_t>(below(random, object.size())));
  return field->is_object() && !field->empty() && below(random, 3) != 0 ? some_field(*field, random) : *field;
}

}  // namespace

std::string hostile_json(json good, Random& random) {
  static const std::string kMark = "exchanged here";
  switch (below(random, 8)) {
    case 0:
      return hostile_value(random);
    case 1: {
      auto field = good.begin();
      std::advance(field, static_cast<std::ptrdiff_t>(below(random, good.size())));
      good.erase(field);
      return good.dump();
    }
    case 2: {
      const std::string text = good.dump();
      return text.substr(0, below(random, text.size()));
    }
    default: {
      some_field(good, random) = kMark;
      std::string text = good.dump();
      const std::string quoted = "\"" + kMark + "\"";
      return text.replace(text.find(quoted), quoted.size(), hostile_value(random));
    }
  }
}

}  // namespace fa2::test
