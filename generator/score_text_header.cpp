// Texts become bodies of functions, behind #line directives.
#include <fa2/score_text.h>
#include <fmt/format.h>
#include <generator/score_text_header.h>

#include <string>
#include <string_view>

namespace fa2 {
namespace {

constexpr std::string_view kName = "attention/common/score_text.cuh";

std::string function(std::string_view signature, const ScoreText& text, std::string_view otherwise,
                     Lines lines) {
  const std::string origin =
      lines == Lines::left_out ? "" : fmt::format("#line {} \"{}\"\n", text.line, text.file);
  const std::string body = text.text.empty() ? fmt::format("    {}", otherwise) : origin + text.text;
  return fmt::format("  FA2_DEVICE static {} {{\n{}\n  }}\n", signature, body);
}

}  // namespace

SourceFile score_text_header(std::int64_t number, Lines lines) {
  const ScoreTexts& texts = score_texts(number);
  return {std::string(kName),
          fmt::format("// Rendered by fa2 from texts of a caller.\n#pragma once\n\n"
                      "#include \"attention/common/score_functions.cuh\"\n\n"
                      "namespace fa2::score {{\n\nstruct Text {{\n"
                      "  static constexpr bool has_bias = {}, has_mod = {}, has_mask = {};\n\n",
                      !texts.bias.text.empty(), !texts.mod.text.empty(), !texts.mask.text.empty()) +
              function("float bias(const Position& at)", texts.bias, "return 0.0f;", lines) +
              "  template <class Score>\n" +
              function("Score mod(Score score, const Position& at)", texts.mod, "return score;", lines) +
              function("bool mask(const Position& at)", texts.mask, "return true;", lines) +
              "};\n\n}  // namespace fa2::score\n"};
}

}  // namespace fa2
