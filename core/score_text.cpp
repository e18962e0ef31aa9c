// The texts that this process knows, and what a text may contain.
#include <core/hash.h>
#include <core/text_reads.h>
#include <core/text_words.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

constexpr std::size_t kLongest = 65536;

/// Returns whether brackets match, so that a text cannot end its function.
bool brackets_match(std::string_view code) {
  constexpr std::string_view kOpen = "([{", kClose = ")]}";
  std::string open;
  for (const char c : code) {
    if (kOpen.find(c) != kOpen.npos) open += kClose[kOpen.find(c)];
    if (kClose.find(c) == kClose.npos) continue;
    if (open.empty() || open.back() != c) return false;
    open.pop_back();
  }
  return open.empty();
}

/// Returns the rule that a text breaks; empty: none.
std::string rule_broken_by(std::string_view text) {
  if (text.size() > kLongest) return fmt::format("must have at most {} bytes", kLongest);
  bool ends = true;
  const std::string code = without_comments(text, ends);
  if (!ends) return "must end each comment that it begins";
  const auto has = [&](std::string_view part) { return code.find(part) != code.npos; };
  if (has("#") || has("%:")) return "must have no preprocessor directive";
  if (has("?\?")) return "must have no trigraph";
  if (has("\"") || has("'")) return "must have no string or character literal";
  if (has("<%") || has("%>") || has("<:") || has(":>")) return "must spell its brackets without digraphs";
  for (const char* const word : {"asm", "__asm", "__asm__", "_Pragma"})
    if (has_word(code, word)) return fmt::format("must not use {}", word);
  if (!brackets_match(code)) return "must close the brackets that it opens, and no others";
  return "";
}

/// Returns what tells texts from others.
std::string all_of(const ScoreTexts& texts) {
  const std::string &bias = texts.bias.text, &mod = texts.mod.text, &mask = texts.mask.text;
  std::string all = fmt::format("{} {} {}\n{}{}{}", bias.size(), mod.size(), mask.size(), bias, mod, mask);
  if (const std::string& slope = texts.mod_slope.text; !slope.empty())
    all += fmt::format("\n=slope {}\n{}", slope.size(), slope);
  if (const MaskBlock& block = texts.mask_block; block != MaskBlock{})
    all += fmt::format("\n=block {} {}", block.queries, block.keys);
  for (const CaptureSpec& capture : texts.captures)
    all += fmt::format("\n{} {} {}", capture.name, static_cast<int>(capture.type), capture.dimensions);
  return all;
}

bool is_known(CaptureType type) {
  return type <= CaptureType::u8 || type == CaptureType::boolean;
}

bool is_type_of_number(CaptureType type) {
  return type == CaptureType::f32 || type == CaptureType::i32 || type == CaptureType::i64 ||
         type == CaptureType::boolean;
}

/// The names that texts have without captures. Those of C++ are left to the compiler, whose message names the text.
constexpr std::string_view kTakenNames =
    "at score Score Text Position Dual bias mod mask exp exp2 log log2 log1p tanh sin cos sigmoid erf "
    "sqrt pow floor ceil round trunc rsqrt select infinity nan abs min max captures index has_bias "
    "has_mod has_mask mask_reads_head mask_block_queries mask_block_keys floor_div remainder mod_slope "
    "has_mod_slope followed capture_count staged Range RangePosition exists elements_in element_at "
    "offset_in number_of index_of_score";

/// Returns the rule that a capture's name breaks; empty: none.
std::string rule_broken_by_name(std::string_view name) {
  const bool is_identifier = !name.empty() && name.size() <= 64 && std::ranges::all_of(name, is_of_name) &&
                             std::isdigit(static_cast<unsigned char>(name.front())) == 0;
  if (!is_identifier) return "must be an identifier of at most 64 characters";
  if (has_word(kTakenNames, name)) return "must not be a name that texts have without it";
  return "";
}

void check(std::vector<Violation>& found, std::span<const CaptureSpec> captures) {
  if (captures.size() > kMostCaptures)
    found.push_back(
        {"captures", fmt::format("{}", captures.size()), fmt::format("must be at most {}", kMostCaptures)});
  for (std::size_t i = 0; i < captures.size(); ++i) {
    const CaptureSpec& capture = captures[i];
    const std::string name = fmt::format("captures[{}]", i);
    if (const std::string rule = rule_broken_by_name(capture.name); !rule.empty())
      found.push_back({name + ".name", capture.name, rule});
    const auto same = std::ranges::find(captures, capture.name, &CaptureSpec::name);
    if (same < captures.begin() + static_cast<std::ptrdiff_t>(i))
      found.push_back({name + ".name", capture.name, "must not be another capture's name"});
    const std::string type = fmt::format("{}", static_cast<int>(capture.type));
    if (!is_known(capture.type))
      found.push_back({name + ".type", type, "must be one of CaptureType"});
    else if (capture.dimensions == CaptureSpec::kNumber && !is_type_of_number(capture.type))
      found.push_back({name + ".type", type, "must be f32, i32, i64 or boolean of a number"});
    else if (capture.dimensions == CaptureSpec::kPerScore && capture.type > CaptureType::f32)
      found.push_back({name + ".type", type, "must be f16, bf16 or f32 of an element per score"});
    if (capture.dimensions < CaptureSpec::kPerScore || capture.dimensions > kMostCaptureDimensions)
      found.push_back(
          {name + ".dimensions", fmt::format("{}", capture.dimensions),
           fmt::format("must be in -2..{}; -1: a number, -2: an element per score", kMostCaptureDimensions)});
  }
}

void check(std::vector<Violation>& found, const std::string& name, const ScoreText& text) {
  if (const std::string rule = rule_broken_by(text.text); !rule.empty())
    found.push_back({name, text.text, rule});
  if (text.file.find_first_of("\"\\\r\n") != std::string::npos)
    found.push_back({name + ".file", text.file, "must have no quotes, backslashes and line breaks"});
  if (text.line < 1) found.push_back({name + ".line", fmt::format("{}", text.line), "must be at least 1"});
}

void check_block(std::vector<Violation>& found, const ScoreTexts& texts) {
  for (const auto& [name, size] : {std::pair("mask_block.queries", texts.mask_block.queries),
                                   std::pair("mask_block.keys", texts.mask_block.keys)})
    if (size < 1 || size > kLargestMaskBlock)
      found.push_back({name, fmt::format("{}", size), fmt::format("must be in 1..{}", kLargestMaskBlock)});
    else if (size > 1 && texts.mask.text.empty())
      found.push_back({name, fmt::format("{}", size), "must be 1 without a mask"});
}

/// Returns a number from 1 to 2^63 - 1.
std::int64_t number_of(const ScoreTexts& texts) {
  return static_cast<std::int64_t>(std::stoull(content_hash(all_of(texts)).substr(0, 16), nullptr, 16) >> 1 |
                                   1);
}

unsigned differentiable(const ScoreTexts& texts) {
  unsigned found = 0;
  for (const std::string& text : {texts.bias.text, texts.mod.text}) {
    bool ends = true;
    each_word(without_comments(text, ends), [&](std::string_view word, std::string_view) {
      for (std::size_t i = 0; i < texts.captures.size(); ++i) {
        const CaptureSpec& capture = texts.captures[i];
        if (capture.name == word && capture.type <= CaptureType::f32 && dimensions_of(capture) >= 0)
          found |= 1u << i;
      }
    });
  }
  return found;
}

int per_score(const ScoreTexts& texts) {
  const unsigned read = differentiable(texts);
  for (std::size_t i = 0; i < texts.captures.size(); ++i)
    if ((read >> i & 1) != 0 && texts.captures[i].dimensions == CaptureSpec::kPerScore)
      return static_cast<int>(i);
  return kNoCapture;
}

int that_is_bias(const ScoreTexts& texts) {
  const int capture = per_score(texts);
  if (capture == kNoCapture || !texts.mod.text.empty()) return kNoCapture;
  const std::string& name = texts.captures[static_cast<std::size_t>(capture)].name;
  return compact(texts.bias.text) == fmt::format("return {}(at);", name) ? capture : kNoCapture;
}

/// Returns whether a word of the code, which begins with a digit, is a decimal integer, and no part of a number with a point. `rest`: the
/// code behind it.
bool is_integer_literal(std::string_view code, std::string_view word, std::string_view rest) {
  if (word.ends_with("LL")) word.remove_suffix(2);
  const bool is_behind_point = word.data() != code.data() && word.data()[-1] == '.';
  return std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; }) && !is_behind_point &&
         !rest.starts_with('.');
}

/// Returns whether a text reads captures with an element per score as `name(at)` alone, and `at` is what it was given. Kernels have
/// the elements around it only.
bool reads_own_elements(const std::string& text, std::span<const CaptureSpec> captures) {
  const auto is_per_score = [](const CaptureSpec& capture) {
    return capture.dimensions == CaptureSpec::kPerScore;
  };
  if (std::ranges::none_of(captures, is_per_score)) return true;
  constexpr std::string_view kOwn = "(at)";
  constexpr char kMark = '@';  // no character of C++
  std::string code = compact(text);
  for (std::size_t i = code.find(kOwn); i != code.npos; i = code.find(kOwn, i + 1))
    if (i > 0 && is_of_name(code[i - 1])) code.replace(i, kOwn.size(), 1, kMark);
  bool does = true;
  each_word(code, [&](std::string_view word, std::string_view rest) {
    const auto same = std::ranges::find(captures, word, &CaptureSpec::name);
    if (same != captures.end() && is_per_score(*same)) does &= rest.starts_with(kMark);
    if (word == "at") does &= rest.starts_with('.');
  });
  return does;
}

void check(const ScoreTexts& texts) {
  std::vector<Violation> found;
  check(found, "bias", texts.bias);
  check(found, "mod", texts.mod);
  check(found, "mod_slope", texts.mod_slope);
  check(found, "mask", texts.mask);
  if (texts.mod.text.empty() && !texts.mod_slope.text.empty())
    found.push_back({"mod_slope", texts.mod_slope.text, "must be empty without mod"});
  check_block(found, texts);
  check(found, texts.captures);
  for (const ScoreText* const text : {&texts.bias, &texts.mod, &texts.mod_slope, &texts.mask})
    if (!reads_own_elements(text->text, texts.captures))
      found.push_back(
          {"captures", text->text,
           "must be read as name(at) if they have an element per score, and `at` be no other variable"});
  if (texts.bias.text.empty() && texts.mod.text.empty() && texts.mask.text.empty())
    found.push_back({"bias, mod, mask", "empty", "must have at least one text"});
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

/// Texts, and what is asked of them again and again.
struct KnownText {
  explicit KnownText(const ScoreTexts& given)
      : texts(given),
        differentiable(fa2::differentiable(given)),
        per_score(fa2::per_score(given)),
        that_is_bias(fa2::that_is_bias(given)) {}

  ScoreTexts texts;
  unsigned differentiable;  ///< see differentiable_captures()
  int per_score;            ///< see capture_per_score()
  int that_is_bias;         ///< see capture_that_is_bias()
};

struct KnownTexts {
  std::mutex mutex;
  std::map<std::int64_t, KnownText> by_number;  // whose nodes stay where they are
};
KnownTexts& known() {
  static KnownTexts& texts = *new KnownTexts;  // outlives every thread
  return texts;
}

const KnownText& known_text(std::int64_t number) {
  const std::lock_guard lock(known().mutex);
  const auto found = known().by_number.find(number);
  if (found == known().by_number.end())
    throw InvalidRequest({{"score_text", fmt::format("{}", number),
                           "must be 0, or what make_score_text() has returned in this process"}});
  return found->second;
}

}  // namespace

MaskReads reads_of_mask(const ScoreTexts& texts) {
  bool ends = true, escapes = false;
  MaskReads reads{false, false, false};
  each_word(without_comments(texts.mask.text, ends), [&](std::string_view word, std::string_view rest) {
    reads.batch |= word == "batch";
    reads.head |= word == "head";
    reads.captures |= std::ranges::find(texts.captures, word, &CaptureSpec::name) != texts.captures.end();
    // A position as a whole may be read without the names of its members.
    const std::size_t next = rest.find_first_not_of(" \t\r\n");
    escapes |= word == "at" && (next == rest.npos || rest[next] != '.');
  });
  return {reads.batch || escapes, reads.head || escapes, reads.captures};
}

bool mask_has_ranges(const ScoreTexts& texts) {
  const std::string code = compact(texts.mask.text);
  // Conditions decide what runs, other assignments than the first change variables, and brackets may be of other types.
  constexpr std::string_view kRefused[] = {
      "?", "[", "{", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="};
  const auto is_refused = [&](std::string_view part) { return code.find(part) != code.npos; };
  if (code.empty() || std::ranges::any_of(kRefused, is_refused)) return false;
  constexpr std::string_view kKnown =
      "batch head query key queries keys return const auto int true false abs min max floor_div remainder "
      "select";
  std::string declared;
  std::string_view before;
  bool has = true;
  each_word(code, [&](std::string_view word, std::string_view rest) {
    const auto capture = std::ranges::find(texts.captures, word, &CaptureSpec::name);
    if (capture != texts.captures.end())
      has &= is_integer(*capture) && rest.starts_with('(');
    else if (word == "at")
      has &= rest.starts_with('.');
    else if (before == "auto" || before == "int")
      declared += fmt::format(" {}", word);
    else if (std::isdigit(static_cast<unsigned char>(word.front())) != 0)
      has &= is_integer_literal(code, word, rest);
    else
      has &= has_word(kKnown, word) || has_word(declared, word);
    before = word;
  });
  return has;
}

bool scores_read_tensors(const ScoreTexts& texts) {
  bool ends = true, reads = false;
  each_word(without_comments(texts.bias.text + "\n" + texts.mod.text, ends),
            [&](std::string_view word, std::string_view) {
              reads |= std::ranges::any_of(texts.captures, [&](const CaptureSpec& capture) {
                return capture.name == word && dimensions_of(capture) > 0;
              });
            });
  return reads;
}

std::int64_t make_score_text(const ScoreTexts& texts) {
  check(texts);
  const std::int64_t number = number_of(texts);
  const std::lock_guard lock(known().mutex);
  const auto [place, is_new] = known().by_number.try_emplace(number, texts);
  if (!is_new && all_of(place->second.texts) != all_of(texts))
    throw Error(ErrorCode::internal,
                fmt::format("two score texts have the number {}: change one by a space", number));
  return number;
}

const ScoreTexts& score_texts(std::int64_t number) {
  return known_text(number).texts;
}

unsigned differentiable_captures(std::int64_t number) {
  return known_text(number).differentiable;
}

int capture_per_score(std::int64_t number) {
  return known_text(number).per_score;
}

int capture_that_is_bias(std::int64_t number) {
  return known_text(number).that_is_bias;
}

}  // namespace fa2
