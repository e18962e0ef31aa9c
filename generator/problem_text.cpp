// Problems and traits in words and in flags. Everything follows from AttentionProblem::visit.
#include <core/enum_words.h>
#include <fmt/format.h>
#include <generator/problem_text.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <type_traits>
#include <vector>

namespace fa2 {
namespace {

/// Returns "" for a bool, whose name is enough.
template <class Value>
std::string text_of(const Value& value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return "";
  } else if constexpr (std::is_enum_v<Value>) {
    return std::string(word_of(value));
  } else {
    return std::to_string(value);
  }
}

template <class Value>
std::string text_of(const std::optional<Value>& value) {
  return text_of(value.value_or(Value{}));
}

/// How a sentence contains a field: `before`, then the value; always, or only if the value is not the default.
struct Phrase {
  std::string_view field;
  std::string_view before;
  bool always = false;
};

/// Fields with a short form. The others are written as " name value", or " name" for a bool.
constexpr Phrase kPhrases[] = {
    {"dtype", "", true},          {"head_dim", " d", true}, {"head_dim_v", " v"},
    {"mask", " ", true},          {"row_alignment", " "},   {"batch", " batch ", true},
    {"heads_q", " heads ", true}, {"heads_kv", "/", true},  {"seqlen_q", " seqlen ", true},
    {"seqlen_k", "x", true},
};

template <class Value>
std::string said(std::string_view field, const Value& value, const Value& usual) {
  const auto* phrase = std::ranges::find(kPhrases, field, &Phrase::field);
  const bool listed = phrase != std::end(kPhrases);
  if (value == usual && !(listed && phrase->always)) return "";
  const std::string text = text_of(value);
  if (listed) return std::string(phrase->before) + text;
  return fmt::format(" {}{}{}", field, text.empty() ? "" : " ", text);
}

/// The defaults, which a text leaves out.
PlannedProblem usual_of(const AttentionProblem& problem) {
  return {{.head_dim_v = problem.head_dim}, {}};
}

/// Returns "" for a variant that is absent, and for a choice that only few problems make.
template <class Value>
std::string flag_with(std::string_view field, const Value& value) {
  const bool is_choice = std::is_enum_v<Value> && std::ranges::count(kPhrases, field, &Phrase::field) > 0;
  if (value == Value{} && !is_choice) return "";
  const std::string text = field == "score_text" ? "FILE" : text_of(value);
  return flag_of(field) + (text.empty() ? "" : " ") + text;
}

/// Adds the text of a variant.
template <class Value>
void add_variant(std::string& text, std::string_view field, const Value& value) {
  if constexpr (kIsVariant<Value> || kIsChoice<Value>) text += said(field, value, Value{});
}

std::string without_first_space(const std::string& text) {
  return text.substr(std::min<std::size_t>(1, text.size()));
}

}  // namespace

std::string to_string(const AttentionProblem& problem) {
  const AttentionProblem p = problem.normalized(), usual = usual_of(p);
  std::string text;
  AttentionProblem::visit([&](const char* name, FieldRole, const auto& value,
                              const auto& as_usual) { text += said(name, value, as_usual); },
                          p, usual);
  return text;
}

std::string to_string(const PlannedProblem& problem) {
  constexpr PlanOptions kUsual;
  std::string text = to_string(static_cast<const AttentionProblem&>(problem));
  PlanOptions::visit(
      [&](const char* name, const auto& value, const auto& as_usual) { text += said(name, value, as_usual); },
      problem, kUsual);
  return text;
}

std::string to_string(const AttentionTraits& traits) {
  std::string text;
  visit_traits(
      [&](const char* name, const auto& value, const auto& as_usual) { text += said(name, value, as_usual); },
      traits, usual_of(traits));
  std::ranges::replace(text, ' ', '_');
  constexpr std::string_view kAnyOrder = "_bytes16_any_order";  // which names and records call "_any_order"
  if (const std::size_t at = text.find(kAnyOrder); at != text.npos)
    text.replace(at, kAnyOrder.size(), "_any_order");
  return text;
}

std::string variants_of(const AttentionProblem& problem) {
  std::string text;
  const AttentionProblem p = problem.normalized();
  AttentionProblem::visit(
      [&](const char* name, FieldRole, const auto& value) { add_variant(text, name, value); }, p);
  return without_first_space(text);
}

std::string variants_of(const AttentionTraits& traits) {
  std::string text;
  visit_traits([&](const char* name, const auto& value) { add_variant(text, name, value); }, traits);
  return without_first_space(text);
}

std::string flag_of(std::string_view field) {
  if (field == "row_alignment") return "--alignment";
  if (field == "heads_q") return "--heads";
  if (field == "score_text") return "--score-mod";  // or another of the texts
  std::string flag = fmt::format("--{}", field);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string flags_of(const AttentionTraits& traits) {
  std::vector<std::string> flags;
  visit_traits([&](const char* name, const auto& value) { flags.push_back(flag_with(name, value)); }, traits);
  std::erase(flags, "");
  return fmt::format("{}", fmt::join(flags, " "));
}

}  // namespace fa2
