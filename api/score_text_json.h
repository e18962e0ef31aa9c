// Texts of scores in JSON, by content, so that another process can make them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace fa2 {

/// Returns an object of the texts with a number, as {"mask": "return at.key < first();", "captures": [{"name": "first", "type":
/// "i32"}]}. A captured tensor has "dimensions" too. Returns the number if it is 0 or this process has not made the texts.
nlohmann::ordered_json json_of_score_text(std::int64_t number);

/// Makes the texts of such an object, and sets their number, or takes a number. Returns what the value must be; empty if it was valid.
std::string set_score_text(std::int64_t& number, const nlohmann::json& value);

}  // namespace fa2
