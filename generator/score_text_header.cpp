// Texts become bodies of functions, behind #line directives, and captures become functions of their indices.
#include <core/text_reads.h>
#include <fa2/score_text.h>
#include <fmt/format.h>
#include <generator/score_text_header.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace fa2 {
namespace {

std::string origin(Lines lines, int line, std::string_view file) {
  return lines == Lines::left_out ? "" : fmt::format("#line {} \"{}\"\n", line, file);
}

std::string function(std::string_view signature, const ScoreText& text, std::string_view otherwise,
                     Lines lines) {
  const std::string body =
      text.text.empty() ? fmt::format("    {}", otherwise) : origin(lines, text.line, text.file) + text.text;
  return fmt::format("  FA2_DEVICE {} const {{\n{}\n  }}\n", signature, body);
}

/// An element type in memory, and the type of its values in texts.
struct CapturedType {
  std::string_view element, value;
};

CapturedType type_of(CaptureType type) {
  switch (type) {
    case CaptureType::f16:
      return {"Half", "float"};
    case CaptureType::bf16:
      return {"BFloat16", "float"};
    case CaptureType::f32:
      return {"float", "float"};
    case CaptureType::i32:
      return {"int", "int"};
    case CaptureType::i64:
      return {"i64", "i64"};
    case CaptureType::u8:
      return {"unsigned char", "int"};
    case CaptureType::boolean:
      return {"bool", "bool"};
  }
  return {};
}

/// Returns a function of the indices. The interpreter names its line where an index is outside.
std::string capture(const CaptureSpec& spec, std::size_t number, Lines lines) {
  const auto [element, value] = type_of(spec.type);
  std::string parameters, indices, body;
  for (int i = 0; i < spec.dimensions; ++i) {
    parameters += fmt::format("{}int i{}", i == 0 ? "" : ", ", i);
    indices += fmt::format(", ptx::index_in(i{0}, capture.sizes[{0}])", i);
  }
  body = spec.dimensions == CaptureSpec::kNumber
             ? fmt::format("return number_of<{}>(capture);", value)
             : fmt::format("return element_at<{}>(capture, offset_in(capture{}));", element, indices);
  return fmt::format(
      "  FA2_DEVICE {} {}({}) const {{\n{}    const CaptureParams& capture = captures.list[{}]; {}\n  }}\n",
      value, spec.name, parameters, origin(lines, 1, "capture " + spec.name), number, body);
}

/// Like capture(), of a tensor that may have a gradient: its reads can be followed.
std::string followed_capture(const CaptureSpec& spec, std::size_t number, Lines lines) {
  std::string parameters, checked, indices;
  for (int i = 0; i < spec.dimensions; ++i) {
    parameters += fmt::format("{}int i{}", i == 0 ? "" : ", ", i);
    checked += fmt::format(" i{0} = ptx::index_in(i{0}, capture.sizes[{0}]);", i);
    indices += fmt::format(", i{}", i);
  }
  return fmt::format(
      "  FA2_DEVICE Dual {}({}) const {{\n{}    const CaptureParams& capture = captures.list[{}];{} "
      "return followed.read({}, element_at<{}>(capture, offset_in(capture{})), element_number(capture{}));\n"
      "  }}\n",
      spec.name, parameters, origin(lines, 1, "capture " + spec.name), number, checked, number,
      type_of(spec.type).element, indices, indices);
}

SourceFile text_header(const ScoreTexts& texts, Lines lines) {
  std::string text = fmt::format(
      "// Rendered by fa2 from texts of a caller.\n#pragma once\n\n"
      "#include \"attention/common/score_functions.cuh\"\n\n"
      "namespace fa2::score {{\n\nstruct Text {{\n"
      "  static constexpr bool has_bias = {}, has_mod = {}, has_mod_slope = {}, has_mask = {};\n"
      "  static constexpr bool mask_reads_head = {};\n\n"
      "  const ScoreCaptures& captures;\n\n",
      !texts.bias.text.empty(), !texts.mod.text.empty(), !texts.mod_slope.text.empty(),
      !texts.mask.text.empty(), reads_of_mask(texts).head);
  for (std::size_t i = 0; i < texts.captures.size(); ++i) text += capture(texts.captures[i], i, lines);
  text += function("float bias(const Position& at)", texts.bias, "return 0.0f;", lines) +
          "  template <class Score>\n" +
          function("Score mod(Score score, const Position& at)", texts.mod, "return score;", lines) +
          function("float mod_slope([[maybe_unused]] float score, const Position& at)", texts.mod_slope,
                   "return 1.0f;", lines) +
          function("bool mask(const Position& at)", texts.mask, "return true;", lines) +
          "};\n\n}  // namespace fa2::score\n";
  return {"attention/common/score_text.cuh", std::move(text)};
}

/// What depends on a read may stand in a float, which is a number with a derivative here.
SourceFile followed_text_header(const ScoreTexts& texts, unsigned differentiable, Lines lines) {
  std::string text = fmt::format(
      "// Rendered by fa2 from texts of a caller.\n#pragma once\n\n"
      "#include \"attention/backward/followed_read.cuh\"\n\n"
      "namespace fa2::score {{\n\nstruct FollowedText {{\n"
      "  static constexpr int capture_count = {};\n\n"
      "  const ScoreCaptures& captures;\n  FollowedRead& followed;\n\n",
      texts.captures.size());
  for (std::size_t i = 0; i < texts.captures.size(); ++i)
    text += (differentiable >> i & 1) != 0 ? followed_capture(texts.captures[i], i, lines)
                                           : capture(texts.captures[i], i, lines);
  text += "#define float Dual\n" +
          function("Dual bias(const Position& at)", texts.bias, "return 0.0f;", lines) +
          "  template <class Score>\n" +
          function("Score mod(Score score, const Position& at)", texts.mod, "return score;", lines) +
          "#undef float\n};\n\n}  // namespace fa2::score\n";
  return {"attention/backward/sm80/followed_text.cuh", std::move(text)};
}

SourceFile captures_header(const ScoreTexts& texts) {
  std::string list = texts.mask.text.empty() ? "" : "  KeyMapParams key_map;\n";
  if (!texts.captures.empty()) list += fmt::format("  CaptureParams list[{}];\n", texts.captures.size());
  return {"attention/common/score_captures.cuh",
          fmt::format("// Rendered by fa2 from texts of a caller.\n#pragma once\n\n"
                      "#include \"attention/common/capture_params.cuh\"\n\nnamespace fa2 {{\n\n"
                      "struct ScoreCaptures {{\n{}}};\n\n}}  // namespace fa2\n",
                      list)};
}

}  // namespace

std::vector<SourceFile> score_text_headers(std::int64_t number, Lines lines, Reads reads) {
  if (number == 0) return {};
  const ScoreTexts& texts = score_texts(number);
  std::vector<SourceFile> files = {text_header(texts, lines), captures_header(texts)};
  if (reads == Reads::followed)
    files.push_back(followed_text_header(texts, differentiable_captures(number), lines));
  return files;
}

}  // namespace fa2
