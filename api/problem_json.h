// Problems as JSON objects. Everything derives from PlannedProblem::visit.
#pragma once

#include <api/score_text_json.h>
#include <core/enum_words.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/kernel_spec.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace fa2 {

/// Returns a field's value: an enumerator's word; null for an optional without a value.
template <class Value>
nlohmann::ordered_json json_value(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return word_of(value);
  } else if constexpr (kIsOptional<Value>) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  } else {
    return value;
  }
}

/// Returns an object with the fields of an AttentionProblem or a PlannedProblem, in their order. Texts of scores are there by content.
template <class Problem>
nlohmann::ordered_json fields_of(const Problem& problem) {
  auto json = nlohmann::ordered_json::object();
  Problem::visit([&](const char* name, FieldRole, const auto& value) { json[name] = json_value(value); },
                 problem);
  json["score_text"] = json_of_score_text(problem.score_text);
  return json;
}

/// Returns the normalized problem of an object like those of fields_of(), and what is wrong with it. Missing fields have their
/// defaults.
std::pair<PlannedProblem, std::vector<Violation>> parse_problem(const nlohmann::json& object);

/// Calls `take` with the object of each line that is not empty, and collects the violations that it returns.
/// @throws InvalidRequest listing what is wrong with every line, or that there is none. Messages name the text `origin`, a line by
/// `line_rule`, and what a line holds by `noun`.
void parse_lines(std::string_view text, const std::string& origin, std::string_view noun,
                 std::string_view line_rule,
                 const std::function<std::vector<Violation>(const nlohmann::json&)>& take);

/// Returns a file's contents. @throws CacheError if there is no file, or it cannot be read.
std::string text_of_file(const std::filesystem::path& file);

/// Returns whether a JSON number is an integer that Value can hold.
template <class Value>
bool fits(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return std::in_range<Value>(value.get<std::uint64_t>());
  return value.is_number_integer() && std::in_range<Value>(value.get<std::int64_t>());
}

/// Sets a number, a flag, an enumerator (from its word) or an optional one of them. Returns what the value must be; empty if it was
/// valid.
template <class Value>
std::string set_from_json(Value& field, const nlohmann::json& value) {
  if constexpr (std::is_enum_v<Value>) {
    const auto named = enumerator_of<Value>(value.is_string() ? value.get<std::string>() : "");
    field = named.value_or(field);
    return named ? "" : fmt::format("must be one of {}", joined_words<Value>());
  } else if constexpr (std::is_same_v<Value, bool>) {
    if (!value.is_boolean()) return "must be true or false";
    field = value.get<bool>();
  } else if constexpr (std::is_same_v<Value, std::string>) {
    if (!value.is_string()) return "must be a text";
    field = value.get<std::string>();
  } else if constexpr (kIsOptional<Value>) {
    if (!value.is_null()) return set_from_json(field.emplace(), value);
    field.reset();
  } else {
    if (!fits<Value>(value)) return fmt::format("must be an integer of {} bits", 8 * sizeof(Value));
    field = value.get<Value>();
  }
  return "";
}

}  // namespace fa2
