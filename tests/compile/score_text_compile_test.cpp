// Kernels with texts of scores compile without spills, and compilers name the caller's file and line.
#include <doctest/doctest.h>
#include <fa2/score_text.h>
#include <generator/kernel_kind.h>

#include <string>
#include <utility>
#include <vector>

#include "../support/device_under_test.h"
#include "compiled_kernels.h"

using namespace fa2;
using namespace fa2::test;

namespace {

const std::vector<ScoreTexts>& light_texts() {
  static const std::vector<ScoreTexts> texts = {
      {.bias = "return -exp2(-0.5f * (at.head + 1)) * abs(at.query + at.keys - at.queries - at.key);"},
      {.mod = "return 20.0f * tanh(score / 20.0f);"},
      {.mask = "return at.key < 512 || at.key <= at.query;"},
      {.bias = "return gain() * table(at.head, max(min(at.key - at.query, 255), -256) + 256);",
       .captures = {{"table", CaptureType::f32, 2}, {"gain"}}},
      {.mask = "return ids(at.batch, at.query) == ids(at.batch, at.key);",
       .captures = {{"ids", CaptureType::i32, 2}}}};
  return texts;
}

/// Returns the heuristic's kernels of a few texts: of long sequences, and for one query of many keys.
std::vector<KernelSource> text_kernels() {
  Kernels kernels;
  std::size_t i = 0;
  for (const ScoreTexts& texts : light_texts()) {
    for (const char* const family : kFamilies) {
      PlannedProblem p = square(i % 2 == 0 ? 64 : 128, kMasks[i / 2 % 2], 4096);
      p.dtype = i % 3 == 0 ? DType::bf16 : DType::f16;
      p.score_text = make_score_text(texts);
      kernels.add(p, *find_arch(family));
      p.seqlen_q = 1;
      kernels.add(p, *find_arch(family));
      ++i;
    }
  }
  return std::move(kernels).list();
}

/// Returns Hopper's first choices for every width of heads, for short and for long sequences.
std::vector<KernelSource> hopper_kernels() {
  Kernels kernels;
  std::size_t i = 0;
  for (const ScoreTexts& texts : light_texts()) {
    for (const int head_dim : {64, 96, 192, 256}) {
      for (const int seqlen : {1000, 5000}) {
        PlannedProblem p = square(head_dim, kMasks[i++ / 3 % 2], seqlen);
        p.score_text = make_score_text(texts);
        kernels.add(p, *find_arch("sm_90a"));
      }
    }
  }
  return std::move(kernels).list();
}

/// Returns kernels of gradients, which every GPU can run.
std::vector<KernelSource> gradient_kernels() {
  Kernels kernels;
  for (const ScoreTexts& texts : light_texts()) {
    for (const char* const family : kFamilies) {
      PlannedProblem p = square(64, MaskKind::none, 4096);
      p.score_text = make_score_text(texts);
      for (const KernelId kernel : {KernelId::backward_dq_sm80, KernelId::backward_dk_dv_sm80})
        kernels.add(p, default_config(kernel), *find_arch(family));
    }
  }
  return std::move(kernels).list();
}

/// Returns kernels of captures' gradients, of texts that read them once, several times and beside everything else.
std::vector<KernelSource> capture_kernels() {
  Kernels kernels;
  const std::vector<CaptureSpec> captures = {{"a", CaptureType::f32, 2}, {"b", CaptureType::bf16, 1}, {"c"}};
  const ScoreTexts all[] = {
      {.bias = "return c() * a(at.head, max(min(at.key - at.query, 255), -256) + 256);",
       .captures = captures},
      {.mod = "return b(at.head) * tanh(score / b(at.head)) + a(at.head, at.key);", .captures = captures}};
  for (const ScoreTexts& texts : all) {
    for (const int head_dim : {64, 128, 256}) {
      for (const char* const family : kFamilies) {
        PlannedProblem p = square(head_dim, MaskKind::causal_bottom_right, 4096);
        p.score_text = make_score_text(texts);
        p.varlen = head_dim == 64, p.dropout = head_dim == 128;
        kernels.add(p, heuristic_choices(p, *find_arch(family), KernelPass::d_captures).at(0).config,
                    *find_arch(family));
      }
    }
  }
  return std::move(kernels).list();
}

/// Returns Hopper's first choices for biases with an element per score, forward and backward, all of which have tiles of it.
std::vector<KernelSource> tile_kernels() {
  Kernels kernels;
  const Arch& hopper = *find_arch("sm_90a");
  std::size_t i = 0;
  for (const CaptureType type : {CaptureType::bf16, CaptureType::f32}) {
    const std::int64_t text =
        make_score_text({.bias = "return pair(at);", .captures = {{"pair", type, CaptureSpec::kPerScore}}});
    for (const int head_dim : {64, 96, 128, 192, 256}) {
      PlannedProblem p = square(head_dim, kMasks[i++ % 2], 4096);
      p.dtype = DType::bf16, p.score_text = text;
      for (const KernelPass pass : {KernelPass::forward, KernelPass::dq_dk_dv}) {
        if (pass == KernelPass::dq_dk_dv && head_dim > 128) continue;  // two blocks share their tiles
        const KernelConfig config = heuristic_choices(p, hopper, pass).at(0).config;
        CHECK(config.score_tiles == 1);
        kernels.add(p, config, hopper);
      }
    }
  }
  return std::move(kernels).list();
}

}  // namespace

TEST_CASE("score texts: kernels of captures' gradients compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(capture_kernels());
}

TEST_CASE("score texts: kernels of light ones compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(text_kernels());
}

TEST_CASE("score texts: Hopper's kernels of every width of heads compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(hopper_kernels());
}

TEST_CASE("score texts: Hopper's kernels with tiles of a bias compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(tile_kernels());
}

TEST_CASE("score texts: kernels of gradients of light ones compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(gradient_kernels());
}

TEST_CASE("score texts: a compiler's message names the caller's file and line") {
  if (fa2::test::nvrtc_missing()) return;
  PlannedProblem p = square(64, MaskKind::none, 512);
  p.score_text = make_score_text({.mod = {"const Score x = score;\nreturn x * undeclared;", "mine.cu", 41}});
  Kernels kernels;
  kernels.add(p, *find_arch("sm_80"));
  try {
    make_nvrtc_compiler()->compile(std::move(kernels).list().front());
    FAIL("must not compile");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("mine.cu(42): error") != std::string::npos);
  }
}

TEST_CASE("score texts: what depends on the score does not lose its slope in a float") {
  if (fa2::test::nvrtc_missing()) return;
  PlannedProblem p = square(64, MaskKind::none, 512);
  p.score_text = make_score_text({.mod = {"const float x = score;\nreturn x * score;", "lossy.cu", 1}});
  const KernelConfig gradient = default_config(KernelId::backward_dq_sm80);
  Kernels kernels;
  kernels.add(p, gradient, *find_arch("sm_80"));
  CHECK_THROWS_WITH_AS(make_nvrtc_compiler()->compile(std::move(kernels).list().front()),
                       doctest::Contains("lossy.cu(1): error"), Error);
}
