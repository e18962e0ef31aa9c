// Implements fa2/c_score_text.h on fa2/score_text.h.
#include <api/c_guard.h>
#include <fa2/c_score_text.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>
#include <fmt/format.h>

#include <cstddef>
#include <vector>

namespace fa2 {
namespace {

static_assert(sizeof(fa2_capture) == sizeof(ScoreCapture) &&
                  offsetof(fa2_capture, number) == offsetof(ScoreCapture, number) &&
                  offsetof(fa2_capture, sizes) == offsetof(ScoreCapture, sizes) &&
                  offsetof(fa2_capture, strides) == offsetof(ScoreCapture, strides),
              "AttentionArgs::captures points to the C structs");
static_assert(FA2_UINT8 == static_cast<int>(CaptureType::u8) &&
              FA2_CAPTURED_BOOL == static_cast<int>(CaptureType::boolean));

ScoreText read(const char* name, const fa2_score_text* given) {
  if (given == nullptr || given->text == nullptr) return {};
  if (given->reserved != 0)
    throw InvalidRequest(
        {{fmt::format("{}.reserved", name), fmt::format("{}", given->reserved), "must be 0"}});
  return {given->text, given->file == nullptr ? ScoreText().file : given->file, given->line};
}

std::vector<CaptureSpec> read(const fa2_capture_spec* given, std::size_t count) {
  if (given == nullptr && count > 0)
    throw InvalidRequest({{"captures", "NULL", "must be a pointer: capture_count is above 0"}});
  std::vector<CaptureSpec> specs;
  for (std::size_t i = 0; i < count; ++i) {
    if (given[i].name == nullptr)
      throw InvalidRequest({{fmt::format("captures[{}].name", i), "NULL", "must be an identifier"}});
    // No other number is a type. make_score_text() refuses 255 like any that is none.
    const bool is_byte = given[i].dtype >= 0 && given[i].dtype < 256;
    specs.push_back(
        {given[i].name, static_cast<CaptureType>(is_byte ? given[i].dtype : 255), given[i].dimensions});
  }
  return specs;
}

}  // namespace
}  // namespace fa2

fa2_status fa2_make_score_text(const fa2_score_text* bias, const fa2_score_text* mod,
                               const fa2_score_text* mask, const fa2_capture_spec* captures,
                               size_t capture_count, int64_t* number) {
  using namespace fa2;
  return guarded([&] {
    if (number == nullptr) throw InvalidRequest({{"number", "NULL", "must be a pointer"}});
    *number = make_score_text({.bias = read("bias", bias),
                               .mod = read("mod", mod),
                               .mask = read("mask", mask),
                               .captures = read(captures, capture_count)});
  });
}
