// Forwards that visit only the KV blocks which the text of a mask shows.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/score_text.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../support/captures.h"
#include "../support/gpu_backward.h"
#include "../support/temporary_directory.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using At = reference::ScorePosition;

struct Case {
  std::string name;
  ScoreTexts texts;
  reference::ScoreFunctions functions;
};

/// Masks of which some blocks are shown wholly, in part, and not at all; tiles without any block among them.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"prefix",
       {.mask = "return at.key < 90 || at.key <= at.query;"},
       {.mask = [](const At& at) { return at.key < 90 || at.key <= at.query; }}},
      {"documents of 100",
       {.mask = "return at.key / 100 == at.query / 100;"},
       {.mask = [](const At& at) { return at.key / 100 == at.query / 100; }}},
      {"sink and window by head",
       {.mask = "return at.key < 4 || (at.key <= at.query && at.query - at.key < 40 + 30 * at.head);"},
       {.mask =
            [](const At& at) {
              return at.key < 4 || (at.key <= at.query && at.query - at.key < 40 + 30 * at.head);
            }}},
      {"tiles without a key, by sequence",
       {.mask = "return at.query / 64 % 3 != at.batch && at.key / 48 % 2 == at.query / 64 % 2;"},
       {.mask =
            [](const At& at) {
              return at.query / 64 % 3 != at.batch && at.key / 48 % 2 == at.query / 64 % 2;
            }}},
      {"one key that only the last query of a tile sees",
       {.mask = "return at.query % 128 == 127 ? at.key % 128 == 127 : at.key < 16;"},
       {.mask = [](const At& at) { return at.query % 128 == 127 ? at.key % 128 == 127 : at.key < 16; }}},
      {"a bias beside it",
       {.bias = "return 0.01f * (at.key - at.query);", .mask = "return at.key < 100 || at.key > 300;"},
       {.mod = [](double s, const At& at) { return s + 0.01 * static_cast<double>(at.key - at.query); },
        .mask = [](const At& at) { return at.key < 100 || at.key > 300; }}},
      {"a cap beside it",
       {.mod = "return 3.0f * tanh(score / 3.0f);",
        .mask = "return (at.key / 128 + at.query / 128) % 2 == 0;"},
       {.mod = [](double s, const At&) { return 3 * std::tanh(s / 3); },
        .slope = [](double s, const At&) { return 1 - std::pow(std::tanh(s / 3), 2); },
        .mask = [](const At& at) { return (at.key / 128 + at.query / 128) % 2 == 0; }}}};
  return all;
}

AttentionProblem problem_of(std::size_t i, const ScoreTexts& texts, int head_dim = 64) {
  constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::none};
  AttentionProblem p =
      grouped_problem(i % 2 == 0 ? DType::f16 : DType::bf16, kMasks[i % 3], head_dim, 300, 411);
  p.score_text = make_score_text(texts);
  if (i % 4 == 3) p.window_left = 200;
  return p;
}

void expect_contract_with(const Case& of, std::size_t i, const std::string& config) {
  GuardedCall call(problem_of(i, of.texts));
  call.functions = of.functions;
  call.upload();
  ContextOptions options = untuned();
  options.config = parse_config(config);
  Context context(options);
  INFO(of.name);
  INFO(config);
  run_and_expect_contract(context, call);
}

}  // namespace

TEST_CASE("key maps: forward_sm80 keeps the numerics contract with every number of stages") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (std::size_t i = 0; i < cases().size() * 2; ++i)
    expect_contract_with(cases()[i % cases().size()], i,
                         "kernel=forward_sm80,tile_m=64,tile_n=" + std::to_string(32 + 16 * (i % 3)) +
                             ",warps=4,stages=" + std::to_string(1 + i % 3) + ",key_map=1");
}

TEST_CASE("key maps: forward_sm90 keeps the numerics contract") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const std::vector<std::string> configs = {
      "tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,speculative_max=1",
      "tile_m=192,tile_n=80,warps=12,stages=3,q_buffers=2,schedule=2,overlap=1,pingpong=1,speculative_max=1",
      "tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=1,overlap=0,speculative_max="
      "1"};
  for (std::size_t i = 0; i < cases().size() * 2; ++i)
    expect_contract_with(
        cases()[i % cases().size()], i,
        "kernel=forward_sm90,key_map=1," + configs[(i + i / cases().size()) % configs.size()]);
}

TEST_CASE("key maps: packed sequences, and their gradients") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const std::vector<std::string> configs = {
      "kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2",
      "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1"};
  for (std::size_t i = 0; i < 3; ++i) {
    AttentionProblem p = problem_of(i, cases()[i].texts);
    p.batch = 3, p.varlen = true, p.total_q = 500, p.total_k = 700;
    GuardedBackward call(p);
    GuardedCall& forward = call.forward;
    forward.functions = cases()[i].functions;
    forward.tables.cu_seqlens_q = {0, 300, 300, 500}, forward.tables.cu_seqlens_k = {0, 411, 500, 700};
    forward.upload();
    INFO(cases()[i].name);
    for (const std::string& config : configs) {
      INFO(config);
      Context context(pinning(parse_config(config + ",key_map=1")));
      run_and_expect_contract(context, forward);
    }
    call.upload();
    Context context(
        pinning(parse_config("kernel=backward_sm90,tile_m=64,tile_n=128,warps=8,stages=2,key_map=1")));
    context.attention_backward(p, call.args());
    CHECK(call.complaints() == "");
  }
}

TEST_CASE("key maps: more blocks than a word has bits, forward and backward") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const ScoreTexts texts{.mask = "return at.key / 700 == at.query / 700 || at.key == 5;"};
  const auto mask = [](const At& at) { return at.key / 700 == at.query / 700 || at.key == 5; };
  const AttentionProblem shape{.head_dim = 64, .seqlen_q = 130, .seqlen_k = 2200};
  const std::vector<std::string> configs = {
      "kernel=forward_sm80,tile_m=64,tile_n=32,warps=4,stages=2",
      "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1"};
  for (const std::string& config : configs) {
    AttentionProblem p = shape;
    p.score_text = make_score_text(texts);
    GuardedCall call(p);
    call.functions.mask = mask;
    call.upload();
    INFO(config);
    Context context(pinning(parse_config(config + ",key_map=1")));
    run_and_expect_contract(context, call);
  }
  AttentionProblem p = shape;
  std::swap(p.seqlen_q, p.seqlen_k);
  p.score_text = make_score_text(texts);
  GuardedBackward call(p);
  call.forward.functions.mask = mask;
  call.upload();
  Context context(pinning(parse_config(
      "kernel=backward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,pingpong=2,bulk_sums=1,key_map=1")));
  context.attention_backward(p, call.args());
  CHECK(call.complaints() == "");
}

TEST_CASE("key maps: gradients with backward_sm90") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const std::vector<std::string> configs = {"tile_m=128,tile_n=64,warps=8,stages=2",
                                            "tile_m=64,tile_n=64,warps=8,stages=2",
                                            "tile_m=128,tile_n=64,warps=8,stages=3,pingpong=2,bulk_sums=1"};
  for (std::size_t i = 0; i < cases().size() * 2; ++i) {
    const Case& of = cases()[i % cases().size()];
    const std::size_t c = (i + i / cases().size()) % configs.size();
    GuardedBackward call(problem_of(i, of.texts, c == 2 ? 64 : 128));
    call.forward.functions = of.functions;
    call.upload();
    Context context(pinning(parse_config("kernel=backward_sm90,key_map=1," + configs[c])));
    context.attention_backward(call.forward.problem, call.args());
    INFO(of.name);
    INFO(configs[c]);
    CHECK(call.complaints() == "");
  }
}

TEST_CASE("key maps: of a mask that captures nothing there is one for all calls, else one for each") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  ContextOptions options = untuned();
  options.config = parse_config("kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2,key_map=1");
  Context context(options);
  const auto workspace_of = [&](const ScoreTexts& texts) {
    return context.plan(problem_of(0, texts)).workspace_bytes();
  };
  const ScoreTexts documents{.mask = "return ids(at.query) == ids(at.key);",
                             .captures = {{"ids", CaptureType::i32, 1}}};
  CHECK(workspace_of(cases()[0].texts) == 0);
  CHECK(workspace_of({.bias = "return gain();", .mask = "return at.key < 90;", .captures = {{"gain"}}}) == 0);
  CHECK(workspace_of(documents) > 0);

  GuardedCall call(problem_of(0, documents));
  Captures captures;
  captures.add(std::vector<std::int32_t>(411), {411});
  captures.give_to(call.args);
  for (const std::int64_t length : {100, 37, 411}) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < 411; ++i) ids.push_back(static_cast<std::int32_t>(i / length));
    captures.replace(0, ids);
    call.functions.mask = [length](const At& at) { return at.query / length == at.key / length; };
    call.upload();
    INFO(length);
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("key maps: a plan says how many blocks its mask shows") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  ContextOptions options = untuned();
  options.config = parse_config("kernel=forward_sm80,tile_m=64,tile_n=32,warps=4,stages=2,key_map=1");
  Context context(options);
  for (const Case& of : {cases()[0], cases()[1], cases()[4]}) {
    int blocks = 0, seen = 0, part = 0;
    for (int tile = 0; tile < 300; tile += 64) {
      for (int block = 0; block < 411; block += 32) {
        bool any = false, all = true;
        for (int query = tile; query < std::min(tile + 64, 300); ++query) {
          for (int key = block; key < std::min(block + 32, 411); ++key) {
            const bool sees = of.functions.mask(At{.query = query, .key = key});
            any |= sees, all &= sees;
          }
        }
        ++blocks, seen += any, part += any && !all;
      }
    }
    const std::string notes = context.plan(problem_of(0, of.texts)).explain().notes;
    INFO(notes);
    CHECK(notes.find("the mask's text shows " + std::to_string(seen) + " of " + std::to_string(blocks) +
                     " blocks of 64 x 32, " + std::to_string(part) + " of them in part") !=
          std::string::npos);
  }
}

TEST_CASE("key maps: evaluated by ranges, a mask has the same map as pair by pair") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const auto notes_of = [](std::size_t i, const std::string& mask, const std::string& config) {
    return Context(pinning(parse_config(config + ",key_map=1")))
        .plan(problem_of(i, {.mask = mask}))
        .explain()
        .notes;
  };
  const std::vector<std::string> masks = {
      "return at.key < 90 || at.key <= at.query;",
      "const auto row = at.query / 100; return row == at.key / 100 && at.head > 0;",
      "return abs((at.query & 15) - (at.key & 15)) <= 5 && abs((at.query >> 4) - (at.key >> 4)) <= 5;",
      "return remainder(at.key - at.query, 64) < 3;", "return (at.key ^ at.query) < 128 && at.batch == 0;"};
  for (std::size_t i = 0; i < masks.size() * 2; ++i) {
    const std::string& mask = masks[i % masks.size()];
    const std::string config = i % 2 == 0 ? "kernel=forward_sm80,tile_m=64,tile_n=32,warps=4,stages=2"
                                          : "kernel=forward_sm80,tile_m=128,tile_n=64,warps=4,stages=2";
    INFO(mask);
    const std::string notes = notes_of(i, mask, config);
    CHECK(notes.find("the mask's text shows ") != std::string::npos);
    CHECK(notes == notes_of(i, "{ " + mask + " }", config));  // which has no ranges
  }
}

TEST_CASE("key maps: a call that makes one leaves counters of split keys alone, in the same workspace") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall masked(problem_of(
      0, {.mask = "return ids(at.query) == ids(at.key);", .captures = {{"ids", CaptureType::i32, 1}}}));
  Captures captures;
  captures.add(std::vector<std::int32_t>(411), {411});
  captures.give_to(masked.args);
  masked.upload();
  GuardedCall split(
      AttentionProblem{.head_dim = 64, .batch = 1, .heads_q = 2, .seqlen_q = 1, .seqlen_k = 3000});
  Context maps(pinning(parse_config("kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2,key_map=1")));
  Context splits(untuned());
  const AttentionPlan first = maps.plan(masked.problem), second = splits.plan(split.problem);
  REQUIRE(second.workspace_zeros() > first.workspace_zeros());
  DeviceBuffer workspace(std::max(first.workspace_bytes(), second.workspace_bytes()));
  workspace.fill(0);
  masked.args.workspace = split.args.workspace = workspace.data();
  for (int i = 0; i < 2; ++i) {
    run_and_expect_contract(maps, masked);
    std::vector<std::byte> counters(second.workspace_zeros());
    workspace.download(counters.data(), counters.size());
    CHECK(std::ranges::count(counters, std::byte{0}) == static_cast<std::ptrdiff_t>(counters.size()));
    run_and_expect_contract(splits, split);
  }
}

TEST_CASE("key maps: ranges of indices that only some pairs lack are not read") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const ScoreTexts texts{.mask = "return at.key == 0 || ids(at.key - 1) <= ids(at.query);",
                         .captures = {{"ids", CaptureType::u8, 1}}};
  std::vector<std::uint8_t> ids;
  for (int i = 0; i < 411; ++i) ids.push_back(static_cast<std::uint8_t>(i / 90));
  GuardedCall call(problem_of(0, texts));
  Captures captures;
  captures.add(ids, {411});
  captures.give_to(call.args);
  call.functions.mask = [](const At& at) { return at.key == 0 || (at.key - 1) / 90 <= at.query / 90; };
  call.upload();
  Context context(
      pinning(parse_config("kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2,key_map=1")));
  run_and_expect_contract(context, call);
}

TEST_CASE("key maps: a mask that shows most blocks in part has small ones") {
  if (cannot_run_sm_90a()) return;
  if (device(device_under_test()).arch.interpreted) {
    MESSAGE("skipped: the interpreter runs forward_sm80, whose blocks are small");
    return;
  }
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const auto rows_for = [&](const Case& of) {
    AttentionProblem p{.head_dim = 128, .heads_q = 8, .heads_kv = 8, .seqlen_q = 2000, .seqlen_k = 2000};
    p.score_text = make_score_text(of.texts);
    const Explanation explanation = context.plan(p).explain();
    CHECK(explanation.kernels[0].config.tile_m == explanation.kernels[1].config.tile_m);
    return explanation.kernels[1].config.tile_m;
  };
  CHECK(rows_for(cases()[0]) > 64);   // a prefix
  CHECK(rows_for(cases()[1]) == 64);  // documents
}

TEST_CASE("key maps: a pack has the kernels that make them") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const TemporaryDirectory pack;
  PrecompileOptions options;
  options.out = pack.path();
  options.scope = PrecompileScope::given_sizes;
  options.plans = {{RowAlignment::bytes16}};
  options.backward = true;
  const AttentionProblem problem = problem_of(0, cases()[0].texts);
  Context(untuned()).precompile({problem}, {std::string(device(device_under_test()).arch.name)}, options);
  Context context(serving(pack.path()));
  GuardedBackward call(problem);
  call.forward.functions = cases()[0].functions;
  call.forward.upload();
  run_and_expect_contract(context, call.forward);
  CHECK(context.plan(problem).explain().kernels[0].config.kernel == KernelId::key_map);
  call.upload();
  context.attention_backward(problem, call.args());
  CHECK(call.complaints() == "");
}

TEST_CASE("key maps: the heuristic uses them for many queries, and explains it") {
  if (nvrtc_missing()) return;
  Context context(untuned());
  AttentionProblem p = problem_of(0, cases()[0].texts);
  Explanation explanation = context.explain(p, "sm_90a");
  REQUIRE(explanation.kernels.size() == 2);
  CHECK(explanation.kernels[0].config.kernel == KernelId::key_map);
  CHECK(explanation.kernels[1].config.key_map == 1);
  CHECK(explanation.kernels[0].config.tile_n == explanation.kernels[1].config.tile_n);
  explanation = context.explain_backward(p, "sm_90a", {});
  CHECK(explanation.kernels[0].config.key_map == 2);
  CHECK(context.explain_backward(p, "sm_90a", {.determinism = Determinism::bitwise})
            .kernels[0]
            .config.key_map == 0);
  p.seqlen_q = 1;
  CHECK(context.explain(p, "sm_90a").kernels.size() == 1);
}
