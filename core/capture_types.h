// The element types of captures: their words, and their names in .npy files.
#pragma once

#include <fa2/score_text.h>

#include <optional>
#include <string>
#include <string_view>

namespace fa2 {

struct CaptureTypeNames {
  CaptureType type;
  std::string_view word;
  std::string_view npy;  ///< empty: numpy lacks it
};

inline constexpr CaptureTypeNames kCaptureTypes[] = {
    {CaptureType::f16, "f16", "<f2"},     {CaptureType::bf16, "bf16", ""},  {CaptureType::f32, "f32", "<f4"},
    {CaptureType::i32, "i32", "<i4"},     {CaptureType::i64, "i64", "<i8"}, {CaptureType::u8, "u8", "|u1"},
    {CaptureType::boolean, "bool", "|b1"}};

inline std::optional<CaptureType> capture_type_of(std::string_view word) {
  for (const CaptureTypeNames& names : kCaptureTypes)
    if (names.word == word) return names.type;
  return std::nullopt;
}

inline std::string_view word_of(CaptureType type) {
  for (const CaptureTypeNames& names : kCaptureTypes)
    if (names.type == type) return names.word;
  return {};
}

/// In place of a number of dimensions: CaptureSpec::kPerScore.
inline constexpr const char* kPerScoreWord = "per_score";

/// Returns "f16, bf16, f32, i32, i64, u8, bool".
inline std::string capture_type_words() {
  std::string words;
  for (const CaptureTypeNames& names : kCaptureTypes)
    words += (words.empty() ? "" : ", ") + std::string(names.word);
  return words;
}

}  // namespace fa2
