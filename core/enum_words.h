// The words of the enumerations: one table each, for texts, flags, variables and rules.
#pragma once

#include <fa2/append.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fa2/config.h>

#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

template <class Enum>
struct EnumWord {
  Enum value;
  std::string_view word;
};

/// Lists every enumerator and its word, in the order of their values, which count from 0.
template <class Enum>
inline constexpr std::nullptr_t kWords = nullptr;

template <>
inline constexpr EnumWord<DType> kWords<DType>[] = {{DType::f16, "f16"}, {DType::bf16, "bf16"}};

template <>
inline constexpr EnumWord<KvType> kWords<KvType>[] = {
    {KvType::same, "same"}, {KvType::e4m3, "e4m3"}, {KvType::scaled, "scaled"}, {KvType::ds_mla, "ds_mla"}};

template <>
inline constexpr EnumWord<MaskKind> kWords<MaskKind>[] = {
    {MaskKind::none, "none"},
    {MaskKind::causal_bottom_right, "causal_bottom_right"},
    {MaskKind::causal_top_left, "causal_top_left"},
};

template <>
inline constexpr EnumWord<RowAlignment> kWords<RowAlignment>[] = {
    {RowAlignment::bytes16, "bytes16"},
    {RowAlignment::element, "element"},
    {RowAlignment::bytes16_any_order, "bytes16_any_order"},
};

template <>
inline constexpr EnumWord<EmptyRowLse> kWords<EmptyRowLse>[] = {
    {EmptyRowLse::positive_infinity, "positive_infinity"},
    {EmptyRowLse::negative_infinity, "negative_infinity"},
};

template <>
inline constexpr EnumWord<LseBase> kWords<LseBase>[] = {{LseBase::natural, "natural"}, {LseBase::two, "two"}};

template <>
inline constexpr EnumWord<RotaryStyle> kWords<RotaryStyle>[] = {{RotaryStyle::halves, "halves"},
                                                                {RotaryStyle::interleaved, "interleaved"}};

template <>
inline constexpr EnumWord<KernelOrigin> kWords<KernelOrigin>[] = {
    {KernelOrigin::memory, "memory"},
    {KernelOrigin::read_only_cache, "read_only_cache"},
    {KernelOrigin::disk_cache, "disk_cache"},
    {KernelOrigin::compiled, "compiled"},
};

template <>
inline constexpr EnumWord<ConfigOrigin> kWords<ConfigOrigin>[] = {
    {ConfigOrigin::pinned, "pinned"},
    {ConfigOrigin::tuned_now, "tuned_now"},
    {ConfigOrigin::tuned_exact, "tuned_exact"},
    {ConfigOrigin::tuned_nearest, "tuned_nearest"},
    {ConfigOrigin::tuned_other_device, "tuned_other_device"},
    {ConfigOrigin::heuristic, "heuristic"},
    {ConfigOrigin::fallback, "fallback"},
};

template <>
inline constexpr EnumWord<TuneMode> kWords<TuneMode>[] = {{TuneMode::off, "off"},
                                                          {TuneMode::stored, "stored"},
                                                          {TuneMode::learn, "learn"},
                                                          {TuneMode::adaptive, "adaptive"},
                                                          {TuneMode::now, "now"}};

template <>
inline constexpr EnumWord<PrecompileScope> kWords<PrecompileScope>[] = {
    {PrecompileScope::any_size, "any_size"}, {PrecompileScope::given_sizes, "given_sizes"}};

template <>
inline constexpr EnumWord<TuneScope> kWords<TuneScope>[] = {{TuneScope::likely, "likely"},
                                                            {TuneScope::all, "all"}};

template <>
inline constexpr EnumWord<Determinism> kWords<Determinism>[] = {{Determinism::fastest, "fastest"},
                                                                {Determinism::bitwise, "bitwise"}};

template <>
inline constexpr EnumWord<JitMode> kWords<JitMode>[] = {
    {JitMode::on, "on"}, {JitMode::off, "off"}, {JitMode::lazy, "lazy"}};

template <>
inline constexpr EnumWord<KernelId> kWords<KernelId>[] = {
#define FA2_WORD(name) {KernelId::name, #name},
    FA2_KERNELS(FA2_WORD)
#undef FA2_WORD
};

/// The number of enumerators, which are 0 .. kEnumerators - 1.
template <class Enum>
inline constexpr std::size_t kEnumerators = [] {
  std::size_t next = 0;
  for (const auto& [value, word] : kWords<Enum>) {
    if (static_cast<std::size_t>(value) != next++)
      throw "kWords lists enumerators in the order of their values";
  }
  return next;
}();

template <class Enum>
constexpr bool is_enumerator(Enum value) {
  return static_cast<std::size_t>(value) < kEnumerators<Enum>;
}

/// Returns "invalid" if `value` is no enumerator.
template <class Enum>
constexpr std::string_view word_of(Enum value) {
  return is_enumerator(value) ? kWords<Enum>[static_cast<std::size_t>(value)].word : "invalid";
}

template <class Enum>
constexpr std::optional<Enum> enumerator_of(std::string_view text) {
  for (const auto& [value, word] : kWords<Enum>) {
    if (word == text) return value;
  }
  return std::nullopt;
}

template <class Enum>
std::vector<std::string> words_of() {
  std::vector<std::string> words;
  for (const auto& [value, word] : kWords<Enum>) words.emplace_back(word);
  return words;
}

/// Returns "must be none (0), causal_bottom_right (1) or causal_top_left (2)"
template <class Enum>
std::string rule_of() {
  std::string rule = "must be ";
  for (std::size_t i = 0; i < kEnumerators<Enum>; ++i) {
    if (i > 0) rule += i + 1 < kEnumerators<Enum> ? ", " : " or ";
    rule.append(kWords<Enum>[i].word).append(" (").append(std::to_string(i)).append(")");
  }
  return rule;
}

/// The characters of joined_words().
template <class Enum>
inline constexpr auto kJoinedWords = [] {
  constexpr std::size_t kSize = [] {
    std::size_t size = 2 * (kEnumerators<Enum> - 1);
    for (const auto& [value, word] : kWords<Enum>) size += word.size();
    return size;
  }();
  std::array<char, kSize> joined{};
  std::size_t end = 0;
  for (const auto& [value, word] : kWords<Enum>) {
    if (end > 0) joined[end++] = ',', joined[end++] = ' ';
    for (const char c : word) joined[end++] = c;
  }
  return joined;
}();

/// Returns "off, stored, search", as static text.
template <class Enum>
constexpr std::string_view joined_words() {
  return {kJoinedWords<Enum>.data(), kJoinedWords<Enum>.size()};
}

}  // namespace fa2
