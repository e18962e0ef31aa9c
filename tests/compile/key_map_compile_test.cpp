// The kernel that maps what masks show compiles without spills, with ranges, pair by pair and by blocks.
#include <doctest/doctest.h>
#include <fa2/score_text.h>
#include <generator/kernel_kind.h>
#include <generator/key_map_layout.h>

#include <utility>
#include <vector>

#include "../support/device_under_test.h"
#include "compiled_kernels.h"

using namespace fa2;
using namespace fa2::test;

namespace {

std::vector<ScoreTexts> masks() {
  std::vector<ScoreTexts> all = {
      {.mask = "return at.key < 512 || at.key <= at.query;"},
      {.mask =
           "return abs((at.query & 63) - (at.key & 63)) <= 8 && abs((at.query >> 6) - (at.key >> 6)) <= 8;"},
      {.mask = "const int d = at.key - at.query; return !(remainder(d, 64) > 3 || floor_div(d, 7) == -2) && "
               "select(at.head < 3, max(d, 5), min(d * 3, 9 << 2)) != (~d | 3 ^ d % 5) && +d / 2 >= -d;"},
      {.mask = "if (at.key < 512) return true; return at.key % 3 == at.query % 3;"},
      {.mask = "for (int i = first(at.query / 64); i < first(at.query / 64 + 1); ++i) if (list(i) == at.key "
               "/ 64) "
               "return true; return false;",
       .mask_block = {64, 64},
       .captures = {{"first", CaptureType::i32, 1}, {"list", CaptureType::i32, 1}}}};
  for (const CaptureType type : {CaptureType::i32, CaptureType::i64, CaptureType::u8, CaptureType::boolean})
    all.push_back(
        {.mask =
             "const auto row = ids(at.batch, at.query); return row == ids(at.batch, at.key) && at.key < n();",
         .captures = {{"ids", type, 2}, {"n", type == CaptureType::u8 ? CaptureType::i32 : type}}});
  return all;
}

std::vector<KernelSource> map_kernels() {
  Kernels kernels;
  std::size_t i = 0;
  for (const ScoreTexts& texts : masks()) {
    for (const char* const family : kFamilies) {
      PlannedProblem p = square(64, kMasks[i % 2], 4096);
      p.score_text = make_score_text(texts);
      p.varlen = i % 3 == 0;
      KernelConfig config = default_config(KernelId::key_map);
      config.tile_m = i % 4 < 2 ? 64 : 128, config.tile_n = i % 5 < 2 ? 128 : 64;
      config.key_map = i++ % 2 == 0 ? kMapOfQueries : kMapOfKeys;
      kernels.add(p, config, *find_arch(family));
    }
  }
  return std::move(kernels).list();
}

}  // namespace

TEST_CASE("key maps: kernels of every kind of mask compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(map_kernels());
}
