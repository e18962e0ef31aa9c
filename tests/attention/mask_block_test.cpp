// Masks that answer the same in blocks of queries and keys: lists and tables of blocks.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/score_text.h>
#include <runtime/device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../support/captures.h"
#include "../support/gpu_backward.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using At = reference::ScorePosition;

/// Blocks of which tiles have several, a part, or a part of two.
constexpr MaskBlock kBlocks[] = {{128, 128}, {64, 32}, {1, 100}, {100, 1}, {72, 48}};

AttentionProblem problem_of(std::size_t i, const ScoreTexts& texts) {
  constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
  AttentionProblem p = grouped_problem(i % 2 == 0 ? DType::f16 : DType::bf16, kMasks[i % 3], 64, 300, 411);
  p.score_text = make_score_text(texts);
  if (i % 4 == 3) p.window_left = 150;
  return p;
}

/// A mask that shows about half of the blocks, others to each head.
ScoreTexts texts_of(const MaskBlock& block) {
  const std::string queries = std::to_string(block.queries), keys = std::to_string(block.keys);
  return {.mask = "return (at.query / " + queries + " * 5 + at.key / " + keys + " * 3 + at.head) % 4 < 2;",
          .mask_block = block};
}

reference::ScoreFunctions functions_of(const MaskBlock& block) {
  return {.mask = [block](const At& at) {
    return (at.query / block.queries * 5 + at.key / block.keys * 3 + at.head) % 4 < 2;
  }};
}

std::string notes_of(const AttentionProblem& p, const std::string& config) {
  return Context(pinning(parse_config(config + ",key_map=1"))).plan(p).explain().notes;
}

}  // namespace

TEST_CASE("mask blocks: the map is that of the same mask without them") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (std::size_t i = 0; i < 10; ++i) {
    ScoreTexts texts = texts_of(kBlocks[i % 5]);
    const AttentionProblem with = problem_of(i, texts);
    texts.mask_block = {};
    const AttentionProblem without = problem_of(i, texts);
    CHECK(with.score_text != without.score_text);
    for (const char* const config : {"kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2",
                                     "kernel=forward_sm80,tile_m=128,tile_n=32,warps=4,stages=2"}) {
      CAPTURE(i);
      const std::string notes = notes_of(with, config);
      CHECK(notes.find("the mask's text shows ") != std::string::npos);
      CHECK(notes == notes_of(without, config));
    }
  }
}

TEST_CASE("mask blocks: forwards and gradients keep the numerics contract") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const std::vector<std::string> configs = {
      "kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2",
      "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1"};
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    GuardedBackward call(problem_of(i, texts_of(kBlocks[i])));
    call.forward.functions = functions_of(kBlocks[i]);
    call.forward.upload();
    Context context(pinning(parse_config(configs[i % 2] + ",key_map=1")));
    run_and_expect_contract(context, call.forward);
    call.upload();
    Context gradients(
        pinning(parse_config("kernel=backward_sm90,tile_m=64,tile_n=128,warps=8,stages=2,key_map=1")));
    gradients.attention_backward(call.forward.problem, call.args());
    CHECK(call.complaints() == "");
  }
}

TEST_CASE("mask blocks: lists of blocks, which a call gives") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  // Key blocks first(row) .. first(row + 1) - 1 of `block` are those of row `row` of query blocks.
  const ScoreTexts lists{.mask =
                             "const int row = at.query / 64, wanted = at.key / 64;\n"
                             "for (int i = first(row); i < first(row + 1); ++i)\n"
                             "  if (block(i) == wanted) return true;\n"
                             "return false;",
                         .mask_block = {64, 64},
                         .captures = {{"first", CaptureType::i32, 1}, {"block", CaptureType::i32, 1}}};
  const std::vector<std::int32_t> first = {0, 2, 2, 5, 6, 8}, block = {0, 6, 1, 2, 3, 5, 0, 6};
  GuardedCall call(problem_of(0, lists));
  Captures captures;
  captures.add(first, {6});
  captures.add(block, {8});
  captures.give_to(call.args);
  call.functions.mask = [&](const At& at) {
    const auto row = static_cast<std::size_t>(at.query / 64);
    for (auto i = first[row]; i < first[row + 1]; ++i)
      if (block[static_cast<std::size_t>(i)] == at.key / 64) return true;
    return false;
  };
  call.upload();
  Context context(
      pinning(parse_config("kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2,key_map=1")));
  run_and_expect_contract(context, call);
}

TEST_CASE("mask blocks: kernels on wgmma have tiles that divide them") {
  if (nvrtc_missing()) return;
  Context context(untuned());
  const auto config_for = [&](const MaskBlock& block, int head_dim) {
    ScoreTexts texts{.mask = "return table(at.query / 128, at.key / 128);",
                     .mask_block = block,
                     .captures = {{"table", CaptureType::boolean, 2}}};
    AttentionProblem p{.head_dim = head_dim, .heads_q = 8, .heads_kv = 8, .seqlen_q = 4096, .seqlen_k = 4096};
    p.score_text = make_score_text(texts);
    return context.explain(p, "sm_90a").kernels.back().config;
  };
  for (const int head_dim : {64, 128, 256}) {
    for (const MaskBlock& block : {MaskBlock{128, 128}, {256, 128}, {128, 64}, {64, 64}}) {
      CAPTURE(head_dim);
      CAPTURE(block.queries);
      CAPTURE(block.keys);
      const KernelConfig config = config_for(block, head_dim);
      CHECK(config.key_map == 1);
      if (head_dim == 256 && block.queries == 64) continue;  // no kernel has such tiles
      CHECK(block.queries % config.tile_m == 0);
      CHECK(block.keys % config.tile_n == 0);
    }
  }
  CHECK(config_for({128, 128}, 128).tile_n == 128);
  CHECK(config_for({1, 1}, 128) == config_for({96, 40}, 128));
}
