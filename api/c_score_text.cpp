// Implements fa2/c_score_text.h on fa2/score_text.h.
#include <api/c_guard.h>
#include <api/c_read_struct.h>
#include <api/c_structs.h>
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
              "AttentionArgs::captures and check_score_text() take the C structs");
static_assert(FA2_CAPTURED_NUMBER == CaptureSpec::kNumber &&
              FA2_CAPTURED_PER_SCORE == CaptureSpec::kPerScore);
static_assert(FA2_UINT8 == static_cast<int>(CaptureType::u8) &&
              FA2_CAPTURED_BOOL == static_cast<int>(CaptureType::boolean));

ScoreText read(const char* name, const fa2_score_text* given) {
  if (given == nullptr || given->text == nullptr) return {};
  if (given->reserved != 0)
    throw InvalidRequest(
        {{fmt::format("{}.reserved", name), fmt::format("{}", given->reserved), "must be 0"}});
  return {given->text, given->file == nullptr ? ScoreText().file : given->file, given->line};
}

/// No other number is a type. make_score_text() refuses 255 like any that is none.
CaptureType read_type(std::int32_t dtype) {
  return static_cast<CaptureType>(dtype >= 0 && dtype < 256 ? dtype : 255);
}

std::vector<CaptureSpec> read(const fa2_capture_spec* given, std::size_t count) {
  if (given == nullptr && count > 0)
    throw InvalidRequest({{"captures", "NULL", "must be a pointer: capture_count is above 0"}});
  std::vector<CaptureSpec> specs;
  for (std::size_t i = 0; i < count; ++i) {
    if (given[i].name == nullptr)
      throw InvalidRequest({{fmt::format("captures[{}].name", i), "NULL", "must be an identifier"}});
    specs.push_back({given[i].name, read_type(given[i].dtype), given[i].dimensions});
  }
  return specs;
}

int read_block(int32_t size) {
  return size == 0 ? 1 : size;
}

ScoreTexts read(const fa2_score_texts& given) {
  return {.bias = read("bias", given.bias),
          .mod = read("mod", given.mod),
          .mod_slope = read("mod_slope", given.mod_slope),
          .mask = read("mask", given.mask),
          .mask_block = {read_block(given.mask_block_queries), read_block(given.mask_block_keys)},
          .captures = read(given.captures, given.capture_count)};
}

}  // namespace
}  // namespace fa2

fa2_status fa2_make_score_text(const fa2_score_texts* texts, int64_t* number) {
  using namespace fa2;
  return guarded([&] {
    Found found;
    is_given(number, "number", found);
    const auto given = read_struct(texts, "texts", found);
    if (given) check_reserved(given->reserved, "texts.reserved", found);
    require_none(found);
    *number = make_score_text(read(*given));
  });
}

fa2_status fa2_fits_per_score(const fa2_problem* problem, int32_t dtype, const fa2_capture* capture,
                              int32_t* fits) {
  using namespace fa2;
  return guarded([&] {
    Found found;
    is_given(capture, "capture", found);
    is_given(fits, "fits", found);
    const auto given = problem_of(problem, found);
    require_none(found);
    *fits = fits_per_score(*given, read_type(dtype), *reinterpret_cast<const ScoreCapture*>(capture)) ? 1 : 0;
  });
}

fa2_status fa2_check_score_text(const fa2_problem* problem, const fa2_capture* captures,
                                int64_t capture_count) {
  using namespace fa2;
  return guarded([&] {
    Found found;
    const auto given = problem_of(problem, found);
    require_none(found);
    check_score_text(*given, reinterpret_cast<const ScoreCapture*>(captures), capture_count);
  });
}
