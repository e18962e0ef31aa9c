// Strict reading of untrusted JSON: nlohmann::json's own get<int>() wraps silently, and its copies and texts
// recurse as deep as the value is nested.
#pragma once

#include <fa2/errors.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fa2 {

inline constexpr int kMaxJsonDepth = 64;

/// Returns the value of a JSON text; a discarded one if the text is malformed or nested deeper than
/// kMaxJsonDepth.
inline nlohmann::json parse_json(std::string_view text) {
  bool is_deep = false;
  const auto is_kept = [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    is_deep = is_deep || depth > kMaxJsonDepth;
    return !is_deep;
  };
  nlohmann::json value = nlohmann::json::parse(text, is_kept, false);
  return is_deep ? nlohmann::json(nlohmann::json::value_t::discarded) : value;
}

/// Returns an integer field. @throws CacheError if it is not an integer in [low, high],
/// nlohmann::json::exception if it is missing.
inline std::int64_t integer_field(const nlohmann::json& object, const char* name, std::int64_t low,
                                  std::int64_t high) {
  const nlohmann::json& value = object.at(name);
  const bool fits =
      value.is_number_unsigned()
          ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
          : value.is_number_integer();
  if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
    throw CacheError("field \"" + std::string(name) + "\" = " + value.dump(-1, ' ', true) +
                     ", must be an integer from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return value.get<std::int64_t>();
}

inline std::int32_t int32_field(const nlohmann::json& object, const char* name) {
  return static_cast<std::int32_t>(integer_field(object, name, std::numeric_limits<std::int32_t>::min(),
                                                 std::numeric_limits<std::int32_t>::max()));
}

}  // namespace fa2
