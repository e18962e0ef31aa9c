// Files become texts, and words become captures.
#include <core/capture_types.h>
#include <fa2/errors.h>
#include <fa2/problem.h>
#include <fmt/format.h>
#include <runtime/file.h>
#include <tools/score_options.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <regex>
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
  ScoreTexts texts;         ///< without captures
  CaptureOptions captures;  ///< of --capture, then that of --bias
  std::size_t biases = 0;   ///< captures that --bias has added; 0 or 1

  bool has_text() const {
    return !texts.bias.text.empty() || !texts.mod.text.empty() || !texts.mask.text.empty();
  }
  /// Returns a capture as texts read it: pair(at) has an element per score.
  CaptureSpec spec_of(const CaptureOption& option) const {
    CaptureSpec spec = option.spec;
    if (spec.dimensions != kMostCaptureDimensions || option.file.empty()) return spec;
    const std::regex call("\\b" + spec.name + "\\s*\\(\\s*at\\s*\\)");
    const auto calls = [&](const ScoreText& text) { return std::regex_search(text.text, call); };
    if (calls(texts.bias) || calls(texts.mod) || calls(texts.mod_slope) || calls(texts.mask))
      spec.dimensions = CaptureSpec::kPerScore;
    return spec;
  }
  void make(const char* flag, std::int64_t& number) const {
    try {
      if (!has_text()) return;
      ScoreTexts all = texts;
      for (const CaptureOption& option : captures) all.captures.push_back(spec_of(option));
      number = make_score_text(all);
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
  CaptureOptions found;
  for (const std::string& word : words) {
    const CaptureOption& option = found.emplace_back(parse_capture(word));
    if (values == CaptureValues::required && !option.has_value)
      fail(word, "must have a value: NAME=FILE.npy or NAME=NUMBER");
  }
  const auto of_bias = flags.captures.end() - static_cast<std::ptrdiff_t>(flags.biases);
  found.insert(found.end(), of_bias, flags.captures.end());
  flags.captures = std::move(found);
}

constexpr const char* kBiasFlag = "--bias";
constexpr const char* kBiasName = "bias_tensor";

/// Returns whether calls whose sizes are the file's may give it as a capture of kPerScore. Device memory is aligned.
bool fits_per_score(const CaptureOption& option) {
  const std::vector<std::int64_t>& sizes = option.array.shape;
  if (sizes[2] == 1 || sizes[3] == 1) return false;  // one element for all queries or keys
  const AttentionProblem problem{
      .batch = sizes[0], .heads_q = sizes[1], .seqlen_q = sizes[2], .seqlen_k = sizes[3]};
  return fa2::fits_per_score(problem, option.spec.type, option.capture(nullptr));
}

/// Returns the text that reads the elements of a bias, whose sizes may be 1.
std::string text_of_bias(const CaptureOption& option) {
  if (fits_per_score(option)) return fmt::format("return {}(at);", kBiasName);
  constexpr const char* kPlaces[] = {"at.batch", "at.head", "at.query", "at.key"};
  std::string text = fmt::format("return {}(", kBiasName);
  for (std::size_t i = 0; i < kMostCaptureDimensions; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", option.array.shape[i] == 1 ? "0" : kPlaces[i]);
  return text + ");";
}

void take_bias(ScoreFlags& flags, const std::string& path) {
  CaptureOption option;
  option.flag = kBiasFlag, option.spec.name = kBiasName;
  option.has_value = true, option.file = path;
  try {
    option.array = read_captured(path);
  } catch (const Error& error) {
    throw CLI::ValidationError(kBiasFlag, error.what());
  }
  std::vector<std::int64_t>& shape = option.array.shape;
  if (option.array.type > CaptureType::f32 || shape.size() < 2 || shape.size() > kMostCaptureDimensions)
    throw CLI::ValidationError(kBiasFlag, fmt::format("{} = {} {}, must be f16 or f32 of 2 to 4 dimensions: "
                                                      "(batch, heads, queries, keys), each may be 1",
                                                      path, word_of(option.array.type), shape_text(shape)));
  shape.insert(shape.begin(), kMostCaptureDimensions - shape.size(), 1);
  option.spec.type = option.array.type, option.spec.dimensions = kMostCaptureDimensions;
  flags.texts.bias = {text_of_bias(option), path};
  flags.captures.push_back(std::move(option));
  flags.biases = 1;
}

/// Returns the blocks that a word such as 128x64 names.
MaskBlock parse_mask_block(const char* flag, std::string_view word) {
  const std::size_t middle = word.find('x');
  const auto queries = number_in<int>(word.substr(0, middle));
  const auto keys = number_in<int>(middle == word.npos ? "" : word.substr(middle + 1));
  if (!queries || !keys)
    throw CLI::ValidationError(flag, fmt::format("{}, must be QUERIESxKEYS, as in 128x128", word));
  return {*queries, *keys};
}

void add_mask_block(CLI::App& verb, std::int64_t& number, const std::shared_ptr<ScoreFlags>& flags,
                    CLI::Option* mask) {
  constexpr const char* kBlockFlag = "--mask-block";
  const auto take = [&number, flags](const std::string& word) {
    flags->texts.mask_block = parse_mask_block(kBlockFlag, word);
    flags->make(kBlockFlag, number);
  };
  verb.add_option_function<std::string>(
          kBlockFlag, take, "QUERIESxKEYS: blocks in each of which --score-mask says the same of all pairs")
      ->needs(mask);
}

CLI::Option* add_bias(CLI::App& verb, std::int64_t& number, const std::shared_ptr<ScoreFlags>& flags) {
  const auto take = [&number, flags](const std::string& path) {
    take_bias(*flags, path);
    flags->make(kBiasFlag, number);
  };
  return verb
      .add_option_function<std::string>(
          kBiasFlag, take,
          "A .npy file, float16 or float32 (batch, heads, queries, keys), each its "
          "number or 1: added to the scores")
      ->check(CLI::ExistingFile);
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
  CLI::Option* const bias = add(0, "File with the body of a function of a position, added to each score");
  add_bias(verb, number, flags)->excludes(bias);
  const std::vector<const CLI::Option*> texts = {
      bias, add(1, "File with the body of a function of a score and its position"),
      add(2,
          "File with the body of a function of a score and its position: d mod / d score (default: derived)"),
      add(3, "File with the body of a function of a position: is the key seen")};
  add_mask_block(verb, number, flags, verb.get_option("--score-mask"));
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

void CaptureInputs::require_sizes(const AttentionProblem& problem) const {
  const std::vector<std::int64_t> sizes = {problem.batch, problem.heads_q, problem.seqlen_q,
                                           problem.seqlen_k};
  for (const CaptureOption& option : *options_) {
    if (option.flag != std::string_view(kBiasFlag)) continue;
    const auto fits = [](std::int64_t given, std::int64_t size) { return given == 1 || given == size; };
    if (!std::ranges::equal(option.array.shape, sizes, fits))
      throw Error(ErrorCode::invalid_request,
                  fmt::format("{}: shape = {}, must be {}, each of these or 1", option.file,
                              shape_text(option.array.shape), shape_text(sizes)));
  }
}

void CaptureInputs::add_to(AttentionArgs& args) const {
  args.captures = on_device_.data();
  args.capture_count = static_cast<std::int64_t>(on_device_.size());
}

}  // namespace fa2::tools
