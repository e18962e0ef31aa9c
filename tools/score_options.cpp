// Files become texts, and words become captures.
#include <core/capture_types.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/file.h>
#include <tools/score_options.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

namespace fa2::tools {
namespace {

constexpr const char* kFlag = "--capture";

[[noreturn]] void fail(std::string_view text, std::string_view rule) {
  throw CLI::ValidationError(kFlag, fmt::format("{}: {}", text, rule));
}

/// Returns the number that the whole text is.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Takes a number, as C++ spells it. Returns whether `value` is one.
bool take_number(CaptureOption& option, std::string_view value) {
  if (value == "true" || value == "false") {
    option.spec.type = CaptureType::boolean, option.number = value == "true" ? 1 : 0;
  } else if (const auto whole = number_in<std::int64_t>(value)) {
    const bool is_int = std::in_range<std::int32_t>(*whole);
    option.spec.type = is_int ? CaptureType::i32 : CaptureType::i64;
    option.number = static_cast<double>(*whole);
  } else if (const auto number = number_in<double>(value)) {
    option.number = *number;
  } else {
    return false;
  }
  return true;
}

void take_value(CaptureOption& option, std::string_view value, std::string_view text) {
  option.has_value = true;
  if (take_number(option, value)) return;
  option.file = value;
  try {
    option.array = read_captured(option.file);
  } catch (const Error& error) {
    fail(text, error.what());
  }
  option.spec.type = option.array.type;
  option.spec.dimensions = static_cast<int>(option.array.shape.size());
}

void take_type(CaptureOption& option, std::string_view type, std::string_view text) {
  const std::size_t colon = type.find(':');
  const auto found = capture_type_of(type.substr(0, colon));
  if (!found) fail(text, "must have a type among " + capture_type_words());
  option.spec.type = *found;
  if (colon == type.npos) return;
  if (type.substr(colon + 1) == kPerScoreWord) {
    option.spec.dimensions = CaptureSpec::kPerScore;
    return;
  }
  const auto dimensions = number_in<int>(type.substr(colon + 1));
  if (!dimensions || *dimensions < 0) fail(text, "must end in a number of dimensions");
  option.spec.dimensions = *dimensions;
}

std::string text_in(const std::string& path) {
  const auto bytes = read_file(std::filesystem::path(path)).value_or(std::vector<std::byte>());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What the flags have said so far. They come in any order.
struct ScoreFlags {
  ScoreTexts texts;
  CaptureOptions captures;

  bool has_text() const {
    return !texts.bias.text.empty() || !texts.mod.text.empty() || !texts.mask.text.empty();
  }
  void make(const char* flag, std::int64_t& number) const {
    try {
      if (has_text()) number = make_score_text(texts);
    } catch (const InvalidRequest& refused) {
      throw CLI::ValidationError(flag, refused.what());
    }
  }
};

constexpr std::pair<const char*, ScoreText ScoreTexts::*> kTexts[] = {
    {"--score-bias", &ScoreTexts::bias},
    {"--score-mod", &ScoreTexts::mod},
    {"--score-mod-slope", &ScoreTexts::mod_slope},
    {"--score-mask", &ScoreTexts::mask}};

void take_captures(ScoreFlags& flags, const std::vector<std::string>& words, CaptureValues values) {
  flags.captures.clear(), flags.texts.captures.clear();
  for (const std::string& word : words) {
    const CaptureOption& option = flags.captures.emplace_back(parse_capture(word));
    if (values == CaptureValues::required && !option.has_value)
      fail(word, "must have a value: NAME=FILE.npy or NAME=NUMBER");
    flags.texts.captures.push_back(option.spec);
  }
}

}  // namespace

ScoreCapture CaptureOption::capture(const void* data) const {
  ScoreCapture capture;
  capture.number = number;
  if (spec.dimensions == CaptureSpec::kNumber) return capture;
  capture.data = data;
  std::int64_t stride = 1;
  for (std::size_t i = array.shape.size(); i-- > 0; stride *= array.shape[i])
    capture.sizes[i] = array.shape[i], capture.strides[i] = stride;
  return capture;
}

CaptureOption parse_capture(std::string_view text) {
  const std::size_t end = text.find_first_of("=:");
  if (end == text.npos || end + 1 == text.size())
    fail(text, "must be NAME=FILE.npy, NAME=NUMBER, or without a value NAME:TYPE:DIMENSIONS or NAME:TYPE");
  CaptureOption option;
  option.spec.name = text.substr(0, end);
  text[end] == '=' ? take_value(option, text.substr(end + 1), text)
                   : take_type(option, text.substr(end + 1), text);
  return option;
}

std::shared_ptr<const CaptureOptions> add_score_texts(CLI::App& verb, std::int64_t& number,
                                                      CaptureValues values) {
  const auto flags = std::make_shared<ScoreFlags>();
  const auto add = [&](std::size_t i, const char* help) {
    const auto [flag, text] = kTexts[i];
    const auto take = [&number, flags, flag = flag, text = text](const std::string& path) {
      flags->texts.*text = {text_in(path), path};
      flags->make(flag, number);
    };
    return verb.add_option_function<std::string>(flag, take, help)->check(CLI::ExistingFile);
  };
  const std::vector<const CLI::Option*> texts = {
      add(0, "File with the body of a function of a position, added to each score"),
      add(1, "File with the body of a function of a score and its position"),
      add(2,
          "File with the body of a function of a score and its position: d mod / d score (default: derived)"),
      add(3, "File with the body of a function of a position: is the key seen")};
  const auto take = [&number, flags, texts, values](const std::vector<std::string>& words) {
    take_captures(*flags, words, values);
    if (std::ranges::all_of(texts, [](const CLI::Option* text) { return text->count() == 0; }))
      throw CLI::ValidationError(kFlag,
                                 "texts read captures: pass --score-bias, --score-mod or --score-mask");
    flags->make(kFlag, number);
  };
  verb.add_option_function<std::vector<std::string>>(
          kFlag, take,
          values == CaptureValues::required
              ? "What texts read: NAME=FILE.npy, or a number as in NAME=0.5; once for each"
              : "What texts read: NAME:TYPE:DIMENSIONS of a tensor, NAME:TYPE of a number, or as fa2 run "
                "takes it; once for each")
      ->allow_extra_args(false);
  return {flags, &flags->captures};
}

CaptureInputs::CaptureInputs(std::shared_ptr<const CaptureOptions> options) : options_(std::move(options)) {
  for (const CaptureOption& option : *options_) {
    const std::vector<std::byte>& elements = option.array.elements;
    on_host_.push_back(option.capture(elements.data()));
    DeviceBuffer& buffer = buffers_.emplace_back(elements.size());
    buffer.upload(elements.data(), elements.size());
    on_device_.push_back(option.capture(buffer.data()));
  }
}

void CaptureInputs::add_to(AttentionArgs& args) const {
  args.captures = on_device_.data();
  args.capture_count = static_cast<std::int64_t>(on_device_.size());
}

}  // namespace fa2::tools
