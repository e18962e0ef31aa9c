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

/// How a text reads a tensor: the function's parameters, statements that make indices i0, i1 ... in their sizes, and these as
/// arguments behind another one.
struct Indices {
  std::string parameters, statements, arguments;
};

Indices indices_of(const CaptureSpec& spec, std::string_view index = "int") {
  constexpr std::string_view kPositions[] = {"batch", "head", "query", "key"};
  const bool is_per_score = spec.dimensions == CaptureSpec::kPerScore;
  Indices of{is_per_score ? "const Position& at" : "", "", ""};
  for (int i = 0; i < dimensions_of(spec); ++i) {
    if (is_per_score) {
      of.statements += fmt::format(" const int i{0} = index_of_score(at.{1}, capture.sizes[{0}]);", i,
                                   kPositions[static_cast<std::size_t>(i)]);
    } else {
      of.parameters += fmt::format("{}{} i{}", i == 0 ? "" : ", ", index, i);
      of.statements += fmt::format(" i{0} = ptx::index_in(i{0}, capture.sizes[{0}]);", i);
    }
    of.arguments += fmt::format(", i{}", i);
  }
  return of;
}

/// Returns a function of the indices. The interpreter names its line where an index is outside.
std::string capture(const CaptureSpec& spec, std::size_t number, Lines lines) {
  const auto [element, value] = type_of(spec.type);
  const Indices indices = indices_of(spec);
  const std::string body = spec.dimensions == CaptureSpec::kNumber
                               ? fmt::format(" return number_of<{}>(capture);", value)
                               : fmt::format("{} return element_at<{}>(capture, offset_in(capture{}));",
                                             indices.statements, element, indices.arguments);
  return fmt::format(
      "  FA2_DEVICE {} {}({}) const {{\n{}    const CaptureParams& capture = captures.list[{}];{}\n  }}\n",
      value, spec.name, indices.parameters, origin(lines, 1, "capture " + spec.name), number, body);
}

/// Like capture(), of the tensor whose tile lies in shared memory.
std::string staged_capture(const CaptureSpec& spec) {
  return fmt::format(
      "  StagedScores<Config> staged = {{}};\n"
      "  FA2_DEVICE float {}(const Position& at) const {{ return staged.read<{}>(at); }}\n",
      spec.name, type_of(spec.type).element);
}

/// Like capture(), of a tensor that may have a gradient: its reads can be followed.
std::string followed_capture(const CaptureSpec& spec, std::size_t number, Lines lines) {
  const Indices indices = indices_of(spec);
  return fmt::format(
      "  FA2_DEVICE Dual {}({}) const {{\n{}    const CaptureParams& capture = captures.list[{}];{} "
      "return followed.read({}, element_at<{}>(capture, offset_in(capture{})), element_number(capture{}));\n"
      "  }}\n",
      spec.name, indices.parameters, origin(lines, 1, "capture " + spec.name), number, indices.statements,
      number, type_of(spec.type).element, indices.arguments, indices.arguments);
}

/// `staged`: the capture whose tile lies in shared memory, or kNoCapture.
SourceFile text_header(const ScoreTexts& texts, Lines lines, int staged) {
  std::string text = fmt::format(
      "// Rendered by fa2 from texts of a caller.\n#pragma once\n\n"
      "{}#include \"attention/common/score_functions.cuh\"\n\n"
      "namespace fa2::score {{\n\nstruct Text {{\n"
      "  static constexpr bool has_bias = {}, has_mod = {}, has_mod_slope = {}, has_mask = {};\n"
      "  static constexpr bool mask_reads_head = {};\n"
      "  static constexpr int mask_block_queries = {}, mask_block_keys = {};\n\n"
      "  const ScoreCaptures& captures;\n\n",
      staged == kNoCapture ? ""
                           : "#include \"attention/common/staged_scores.cuh\"\n#include \"config.cuh\"\n",
      !texts.bias.text.empty(), !texts.mod.text.empty(), !texts.mod_slope.text.empty(),
      !texts.mask.text.empty(), reads_of_mask(texts).head, texts.mask_block.queries, texts.mask_block.keys);
  for (std::size_t i = 0; i < texts.captures.size(); ++i)
    text += static_cast<int>(i) == staged ? staged_capture(texts.captures[i])
                                          : capture(texts.captures[i], i, lines);
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

/// Like capture(), of ranges of indices.
std::string range_capture(const CaptureSpec& spec, std::size_t number) {
  const Indices indices = indices_of(spec, "Range");
  const auto [element, value] = type_of(spec.type);
  const std::string call =
      spec.dimensions == CaptureSpec::kNumber
          ? fmt::format("number_of<{}>(captures.list[{}])", value, number)
          : fmt::format("elements_in<{}>(captures.list[{}]{})", element, number, indices.arguments);
  return fmt::format("  FA2_DEVICE Range {}({}) const {{ return {}; }}\n", spec.name, indices.parameters,
                     call);
}

/// The mask with ranges in place of integers.
SourceFile range_text_header(const ScoreTexts& texts, Lines lines) {
  std::string text =
      "// Rendered by fa2 from texts of a caller.\n#pragma once\n\n"
      "#include \"attention/rows/score_range.cuh\"\n\n"
      "namespace fa2::score {\n\nstruct RangeText {\n"
      "  static constexpr bool exists = true;\n\n"
      "  const ScoreCaptures& captures;\n\n";
  for (std::size_t i = 0; i < texts.captures.size(); ++i)
    if (is_integer(texts.captures[i])) text += range_capture(texts.captures[i], i);
  text += "#define int Range\n" +
          function("Range mask(const RangePosition& at)", texts.mask, "return 1;", lines) +
          "#undef int\n};\n\n}  // namespace fa2::score\n";
  return {"attention/rows/range_text.cuh", std::move(text)};
}

SourceFile captures_header(const ScoreTexts& texts, Reads reads, bool query_pieces) {
  std::string list = query_pieces ? "  QueryPieceParams query_pieces;\n" : "";
  if (reads == Reads::staged) list += "  CaptureMapParams capture_map;\n";
  if (!texts.mask.text.empty()) list += "  KeyMapParams key_map;\n";
  if (!texts.captures.empty()) list += fmt::format("  CaptureParams list[{}];\n", texts.captures.size());
  return {"attention/common/score_captures.cuh",
          fmt::format("// Rendered by fa2 from texts of a caller.\n#pragma once\n\n"
                      "#include \"attention/common/capture_params.cuh\"\n{}\nnamespace fa2 {{\n\n"
                      "struct ScoreCaptures {{\n{}}};\n\n}}  // namespace fa2\n",
                      query_pieces ? "#include \"attention/common/query_positions.cuh\"\n" : "", list)};
}

}  // namespace

std::vector<SourceFile> score_text_headers(std::int64_t number, Lines lines, Reads reads, bool query_pieces) {
  if (number == 0) {
    if (!query_pieces) return {};
    return {captures_header({}, Reads::plain, true)};
  }
  const ScoreTexts& texts = score_texts(number);
  const int staged = reads == Reads::staged ? capture_per_score(number) : kNoCapture;
  std::vector<SourceFile> files = {text_header(texts, lines, staged),
                                   captures_header(texts, reads, query_pieces)};
  if (reads == Reads::followed)
    files.push_back(followed_text_header(texts, differentiable_captures(number), lines));
  if (reads == Reads::ranges && mask_has_ranges(texts)) files.push_back(range_text_header(texts, lines));
  return files;
}

}  // namespace fa2
