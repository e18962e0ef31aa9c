// Renders texts as members of a struct that has their captures, compiles and loads it.
#include <core/arch.h>
#include <fmt/format.h>
#include <generator/embedded.h>
#include <generator/kernel_source.h>
#include <interpreter/host_compiler.h>
#include <interpreter/host_text.h>
#include <interpreter/loaded_object.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace fa2::interpreter {
namespace {

static_assert(sizeof(ScoreCapture) == 80 && sizeof(HostPosition) == 24,
              "host_score.cuh has the same structs");

constexpr std::string_view kHeader = "host_score.cuh";

/// Returns the type of a captured tensor.
std::string_view tensor_type(CaptureType type) {
  switch (type) {
    case CaptureType::f16:
      return "CapturedTensor<CapturedHalf, double>";
    case CaptureType::bf16:
      return "CapturedTensor<CapturedBfloat16, double>";
    case CaptureType::f32:
      return "CapturedTensor<float, double>";
    case CaptureType::i32:
      return "CapturedTensor<int, int>";
    case CaptureType::i64:
      return "CapturedTensor<i64, i64>";
    case CaptureType::u8:
      return "CapturedTensor<unsigned char, int>";
    case CaptureType::boolean:
      return "CapturedTensor<unsigned char, bool>";
  }
  return {};
}

/// Returns the type of a captured number. A float is rounded as in kernels.
std::string_view number_type(CaptureType type) {
  if (type == CaptureType::f32) return "CapturedNumber<float>";
  if (type == CaptureType::boolean) return "CapturedNumber<bool>";
  return type == CaptureType::i64 ? "CapturedNumber<i64>" : "CapturedNumber<int>";
}

std::string function(std::string_view signature, const ScoreText& text, std::string_view otherwise) {
  if (text.text.empty()) return fmt::format("  {} const {{ {} }}\n", signature, otherwise);
  return fmt::format("  {} const {{\n#line {} \"{}\"\n{}\n  }}\n", signature, text.line, text.file,
                     text.text);
}

std::string rendered(const ScoreTexts& texts) {
  std::string source =
      fmt::format("#include \"{}\"\nnamespace fa2::score {{\nnamespace {{\nstruct Text {{\n", kHeader);
  std::string values;
  for (std::size_t i = 0; i < texts.captures.size(); ++i) {
    const CaptureSpec& spec = texts.captures[i];
    const bool is_number = spec.dimensions == CaptureSpec::kNumber;
    source +=
        fmt::format("  {} {};\n", is_number ? number_type(spec.type) : tensor_type(spec.type), spec.name);
    values += fmt::format("{{captures[{}]}}, ", i);
  }
  source += function("double bias(const Position& at)", texts.bias, "return 0;");
  source += "  template <class Score>\n";
  source += function("Score mod(Score score, const Position& at)", texts.mod, "return score;");
  source += function("double mod_slope(double score, const Position& at)", texts.mod_slope, "return score;");
  source += function("bool mask(const Position& at)", texts.mask, "return true;");
  // The last lines have no place in a file of the caller's.
  return source + fmt::format(R"(}};
#line 1 "functions of the host"
Text text_of([[maybe_unused]] const HostCapture* captures) {{ return {{{}}}; }}
}}
}}
#define FA2_HOST extern "C" [[gnu::visibility("default")]]
using namespace fa2::score;
FA2_HOST double fa2_modified(const HostCapture* captures, const Position& at, double score) {{
  const Text text = text_of(captures);
  return text.mod(score + text.bias(at), at);
}}
FA2_HOST double fa2_slope(const HostCapture* captures, const Position& at, double score) {{
  const Text text = text_of(captures);
  const Dual modified = text.mod(Dual(score + text.bias(at), 1), at);
  return modified.value == -infinity() ? 0 : modified.slope;
}}
FA2_HOST double fa2_given_slope(const HostCapture* captures, const Position& at, double score) {{
  const Text text = text_of(captures);
  return text.mod_slope(score + text.bias(at), at);
}}
FA2_HOST bool fa2_mask(const HostCapture* captures, const Position& at) {{ return text_of(captures).mask(at); }}
)",
                              values);
}

KernelSource source_of(std::int64_t number, const ScoreTexts& texts) {
  KernelSource source;
  source.spec = fmt::format("score_text {} for the host", number);
  source.key = fmt::format("score_text_{}", number);
  source.arch = interpreter_arch();
  source.main = {"score_text.cpp", rendered(texts)};
  const auto files = embedded_twins();
  const auto header = std::ranges::find(files, kHeader, &EmbeddedFile::name);
  source.headers = {{std::string(kHeader), std::string(header->text)}};
  source.options = {"-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"};
  return source;
}

}  // namespace

HostText::HostText(std::int64_t number, std::vector<ScoreCapture> captures)
    : has_mask_(!score_texts(number).mask.text.empty()),
      captures_(std::make_shared<const std::vector<ScoreCapture>>(std::move(captures))),
      object_(std::make_shared<const LoadedObject>(
          make_host_compiler()->compile(source_of(number, score_texts(number))))),
      modified_(object_->symbol<OfScore>("fa2_modified")),
      slope_(object_->symbol<OfScore>("fa2_slope")),
      given_slope_(object_->symbol<OfScore>("fa2_given_slope")),
      mask_(object_->symbol<OfPosition>("fa2_mask")) {}

}  // namespace fa2::interpreter
