// Implements fa2/c_score_text.h on fa2/score_text.h.
#include <api/c_guard.h>
#include <fa2/c_score_text.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>
#include <fmt/format.h>

namespace fa2 {
namespace {

ScoreText read(const char* name, const fa2_score_text* given) {
  if (given == nullptr || given->text == nullptr) return {};
  if (given->reserved != 0)
    throw InvalidRequest(
        {{fmt::format("{}.reserved", name), fmt::format("{}", given->reserved), "must be 0"}});
  return {given->text, given->file == nullptr ? ScoreText().file : given->file, given->line};
}

}  // namespace
}  // namespace fa2

fa2_status fa2_make_score_text(const fa2_score_text* bias, const fa2_score_text* mod,
                               const fa2_score_text* mask, int64_t* number) {
  using namespace fa2;
  return guarded([&] {
    if (number == nullptr) throw InvalidRequest({{"number", "NULL", "must be a pointer"}});
    *number = make_score_text({read("bias", bias), read("mod", mod), read("mask", mask)});
  });
}
