// ScoreTexts to JSON and back.
#include <api/problem_json.h>
#include <api/score_text_json.h>
#include <core/capture_types.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>

#include <utility>
#include <vector>

namespace fa2 {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, ScoreText ScoreTexts::*> kTexts[] = {{"bias", &ScoreTexts::bias},
                                                                      {"mod", &ScoreTexts::mod},
                                                                      {"mod_slope", &ScoreTexts::mod_slope},
                                                                      {"mask", &ScoreTexts::mask}};

Json json_of(const CaptureSpec& capture) {
  Json json = {{"name", capture.name}, {"type", word_of(capture.type)}};
  if (capture.dimensions == CaptureSpec::kPerScore)
    json["dimensions"] = kPerScoreWord;
  else if (capture.dimensions != CaptureSpec::kNumber)
    json["dimensions"] = capture.dimensions;
  return json;
}

std::string set_capture_type(CaptureType& type, const nlohmann::json& value) {
  const auto found = capture_type_of(value.is_string() ? value.get<std::string>() : "");
  type = found.value_or(type);
  return found ? "" : "must be one of " + capture_type_words();
}

std::string set_dimensions(int& dimensions, const nlohmann::json& value) {
  if (value != kPerScoreWord) return set_from_json(dimensions, value);
  dimensions = CaptureSpec::kPerScore;
  return "";
}

/// Adds what is wrong with the capture `name` of texts.
CaptureSpec parse_capture(const std::string& name, const nlohmann::json& object,
                          std::vector<Violation>& found) {
  CaptureSpec capture;
  if (!object.is_object()) {
    found.push_back(
        {name, object.dump(), R"(must be an object, as {"name": "table", "type": "f32", "dimensions": 2})"});
    return capture;
  }
  for (const auto& [key, value] : object.items()) {
    const std::string wrong = key == "name"         ? set_from_json(capture.name, value)
                              : key == "type"       ? set_capture_type(capture.type, value)
                              : key == "dimensions" ? set_dimensions(capture.dimensions, value)
                                                    : "must be name, type or dimensions";
    if (!wrong.empty()) found.push_back({fmt::format("{}.{}", name, key), value.dump(), wrong});
  }
  return capture;
}

void parse_captures(const nlohmann::json& list, ScoreTexts& texts, std::vector<Violation>& found) {
  if (!list.is_array()) return found.push_back({"captures", list.dump(), "must be a list"});
  for (const nlohmann::json& capture : list)
    texts.captures.push_back(
        parse_capture(fmt::format("captures[{}]", texts.captures.size()), capture, found));
}

std::string set_mask_block(MaskBlock& block, const nlohmann::json& value) {
  if (value.is_array() && value.size() == 2 && set_from_json(block.queries, value[0]).empty() &&
      set_from_json(block.keys, value[1]).empty())
    return "";
  return "must be queries and keys, as [128, 128]";
}

ScoreTexts parse_texts(const nlohmann::json& object, std::vector<Violation>& found) {
  ScoreTexts texts;
  for (const auto& [key, value] : object.items()) {
    if (key == "captures") {
      parse_captures(value, texts, found);
      continue;
    }
    std::string wrong = "must be bias, mod, mod_slope, mask, mask_block or captures";
    if (key == "mask_block") wrong = set_mask_block(texts.mask_block, value);
    for (const auto& [name, text] : kTexts)
      if (key == name) wrong = set_from_json((texts.*text).text, value);
    if (!wrong.empty()) found.push_back({key, value.dump(), wrong});
  }
  return texts;
}

}  // namespace

Json json_of_score_text(std::int64_t number) {
  if (number == 0) return 0;
  try {
    const ScoreTexts& texts = score_texts(number);
    Json json = Json::object();
    for (const auto& [name, text] : kTexts)
      if (!(texts.*text).text.empty()) json[name] = (texts.*text).text;
    if (const MaskBlock& block = texts.mask_block; block != MaskBlock{})
      json["mask_block"] = {block.queries, block.keys};
    for (const CaptureSpec& capture : texts.captures) json["captures"].push_back(json_of(capture));
    return json;
  } catch (const InvalidRequest&) {
    return number;
  }
}

std::string set_score_text(std::int64_t& number, const nlohmann::json& value) {
  if (!value.is_object()) {
    const std::string wrong = set_from_json(number, value);
    return wrong.empty() ? "" : R"(must be texts, as {"mask": "return at.key < 7;"}, or 0)";
  }
  std::vector<Violation> found;
  const ScoreTexts texts = parse_texts(value, found);
  try {
    if (!found.empty()) throw InvalidRequest(std::move(found));
    number = make_score_text(texts);
    return "";
  } catch (const InvalidRequest& refused) {
    return std::string("must be texts of scores: ") + refused.what();
  }
}

}  // namespace fa2
