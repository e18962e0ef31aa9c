// Maps of masks that a caller holds between calls.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/block_map.h>
#include <fa2/c_block_map.h>
#include <fa2/score_text.h>
#include <runtime/device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../support/captured_log.h"
#include "../support/captures.h"
#include "../support/gpu_backward.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::int64_t kKeys = 411;
constexpr const char* kForward = "kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2,key_map=1";
constexpr const char* kBackward = "kernel=backward_sm90,tile_m=64,tile_n=128,warps=8,stages=2,key_map=1";

std::vector<std::int32_t> ids_of(std::int64_t length) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < kKeys; ++i) ids.push_back(static_cast<std::int32_t>(i / length));
  return ids;
}

AttentionProblem documents_problem() {
  AttentionProblem p = grouped_problem(DType::bf16, MaskKind::none, 64, 300, kKeys);
  p.score_text = make_score_text({.mask = "return document(at.query) == document(at.key);",
                                  .captures = {{"document", CaptureType::i32, 1}}});
  return p;
}

/// A call with documents of `length` rows.
struct DocumentsCall {
  explicit DocumentsCall(std::int64_t length) : call(documents_problem()) {
    captures.add(ids_of(kKeys), {kKeys});
    captures.give_to(call.args);
    set(length);
  }
  void set(std::int64_t length) {
    captures.replace(0, ids_of(length));
    call.functions.mask = [length](const reference::ScorePosition& at) {
      return at.query / length == at.key / length;
    };
    call.upload();
  }

  Captures captures;
  GuardedCall call;
};

/// Returns the message of the InvalidRequest that `f` throws.
template <class F>
std::string refusal(const F& f) {
  try {
    f();
  } catch (const InvalidRequest& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("block maps: forwards read the map that a caller holds, and make none") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(pinning(parse_config(kForward)));
  DocumentsCall documents(50);
  GuardedCall& call = documents.call;
  const BlockMap map(7);
  CHECK(map.bytes() == 0);
  context.map_blocks(call.problem, call.args, map);
  CHECK(map.bytes() > 0);
  call.args.block_map = &map, call.args.block_map_version = 7;
  run_and_expect_contract(context, call);

  // Whole sequences: the blocks of the old map are visited, so that what the version says is not checked by reading captures.
  documents.set(kKeys);
  context.attention(call.problem, call.args);
  CHECK_FALSE(call.check().ok);
  const std::size_t bytes = map.bytes();
  context.map_blocks(call.problem, call.args, map);
  CHECK(map.bytes() == bytes);
  call.upload();
  run_and_expect_contract(context, call);

  call.args.block_map = nullptr, call.args.block_map_version = 0;
  documents.set(100);
  run_and_expect_contract(context, call);
}

TEST_CASE("block maps: one has the blocks of a forward and of its backward") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context forward(pinning(parse_config(kForward))), backward(pinning(parse_config(kBackward)));
  GuardedBackward call(documents_problem());
  GuardedCall& of_forward = call.forward;
  Captures captures;
  captures.add(ids_of(90), {kKeys});
  captures.give_to(of_forward.args);
  of_forward.functions.mask = [](const reference::ScorePosition& at) { return at.query / 90 == at.key / 90; };
  of_forward.upload();
  const BlockMap map;
  forward.map_blocks(of_forward.problem, of_forward.args, map);
  const std::size_t bytes = map.bytes();
  call.upload();
  backward.map_blocks(of_forward.problem, call.args(), map);
  CHECK(map.bytes() > bytes);
  of_forward.args.block_map = &map;
  run_and_expect_contract(forward, of_forward);
  const CapturedLog log;
  backward.attention_backward(of_forward.problem, call.args());
  CHECK(call.complaints() == "");
  CHECK(log.text() == "");
}

TEST_CASE("block maps: without one for a kernel's tiles, its launches make theirs, and a warning says so") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  DocumentsCall documents(70);
  GuardedCall& call = documents.call;
  Context narrow(pinning(parse_config("kernel=forward_sm80,tile_m=64,tile_n=48,warps=4,stages=2,key_map=1")));
  const BlockMap map;
  Context(pinning(parse_config(kForward))).map_blocks(call.problem, call.args, map);
  call.args.block_map = &map;
  const CapturedLog log;
  run_and_expect_contract(narrow, call);
  CHECK(log.text().find("has no map for tiles of 64 x 48") != std::string::npos);
}

TEST_CASE("block maps: another version, problem or mask is an error before any launch") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(pinning(parse_config(kForward)));
  DocumentsCall documents(60);
  GuardedCall& call = documents.call;
  const BlockMap map(3);
  context.map_blocks(call.problem, call.args, map);
  const auto refused = [&] { return refusal([&] { context.attention(call.problem, call.args); }); };
  call.args.block_map = &map, call.args.block_map_version = 2;
  CHECK(refused().find("block_map_version = 2, must be 3, the map's") != std::string::npos);
  call.args.block_map = nullptr;
  CHECK(refused().find("block_map_version = 2, must be 0") != std::string::npos);
  call.args.block_map = &map, call.args.block_map_version = 3;

  const AttentionProblem mapped = call.problem;
  call.problem.seqlen_q -= 20, call.problem.window_left = 60;
  const std::string shape = refused();
  CHECK(shape.find("block_map = of seqlen_q = 300, must be a map of seqlen_q = 280, the call's") !=
        std::string::npos);
  CHECK(shape.find("block_map = of window_left = none, must be a map of window_left = 60") !=
        std::string::npos);
  CHECK(refusal([&] { context.map_blocks(call.problem, call.args, map); }).find("seqlen_q") !=
        std::string::npos);

  call.problem = mapped;
  call.problem.score_text = 0, call.args.captures = nullptr, call.args.capture_count = 0;
  Context any(untuned());  // the pinned kernel needs a mask
  CHECK(refusal([&] { any.attention(call.problem, call.args); }).find("block_map = given, must be null") !=
        std::string::npos);
  CHECK(call.is_untouched());
}

TEST_CASE("block maps: packed sequences, whose lengths the map takes from the call's tables") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem p = grouped_problem(DType::f16, MaskKind::none, 64, 300, kKeys);
  p.score_text = make_score_text({.mask = "return at.key / 80 == at.query / 80 || at.key == at.keys - 1;"});
  p.batch = 3, p.varlen = true, p.total_q = 500, p.total_k = 700;
  GuardedCall call(p);
  call.functions.mask = [](const reference::ScorePosition& at) {
    return at.key / 80 == at.query / 80 || at.key == at.keys - 1;
  };
  call.tables.cu_seqlens_q = {0, 300, 300, 500}, call.tables.cu_seqlens_k = {0, 411, 500, 700};
  call.upload();
  Context context(pinning(parse_config(kForward)));
  const BlockMap map;
  const AttentionPlan plan = context.plan(call.problem);
  plan.map_blocks(call.args, map);
  CHECK(map.bytes() > 0);
  call.args.block_map = &map;
  plan.run(call.args);
  expect_contract(call);
}

TEST_CASE("block maps: the C interface") {
  if (cannot_run()) return;
  CHECK(fa2_block_map_create(0, nullptr) == FA2_INVALID_REQUEST);
  fa2_block_map* map = nullptr;
  REQUIRE(fa2_block_map_create(9, &map) == FA2_OK);
  REQUIRE(map != nullptr);
  CHECK(reinterpret_cast<const BlockMap*>(map)->version() == 9);
  const fa2_problem problem = FA2_PROBLEM_INIT;
  const fa2_args args = FA2_ARGS_INIT;
  CHECK(fa2_map_blocks(nullptr, &problem, &args, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(fa2_map_blocks(nullptr, &problem, &args, map, nullptr) == FA2_INVALID_REQUEST);
  CHECK(fa2_map_blocks_of_backward(nullptr, &problem, nullptr, map, nullptr) == FA2_INVALID_REQUEST);
  CHECK(fa2_block_map_destroy(map) == FA2_OK);
  CHECK(fa2_block_map_destroy(nullptr) == FA2_OK);
}
