// Lengths that only the GPU knows: invalid ones, different ones in one captured graph, and many.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../support/captured_graph.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min(),
                       kHighest = std::numeric_limits<std::int32_t>::max();

AttentionProblem plain() {
  return {.head_dim = 64, .mask = MaskKind::causal_bottom_right, .heads_q = 4, .heads_kv = 2};
}

/// Returns a config for each forward kernel and schedule that this GPU runs.
std::vector<std::string> configs() {
  std::vector<std::string> all = {"kernel=forward_sm80,tile_m=64,tile_n=64,warps=4,stages=2"};
  if (cannot_run_sm_90a()) return all;
  for (const std::string schedule : {"0", "1", "2"})
    all.push_back(
        "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=2,q_buffers=1,overlap=1,schedule=" +
        schedule);
  return all;
}

GuardedCall call_of(const Lengths& lengths, Packing packing) {
  const AttentionProblem problem = with_lengths(plain(), lengths, packing);
  GuardedCall call(problem, layouts_of(problem, guarded_bshd));
  set_lengths(call, lengths, packing);
  call.upload();
  return call;
}

/// Borders or lengths that descend, are negative, lie beyond the end, exceed the longest, and all of these.
const std::vector<SequenceTables> kBadTables = {
    {.cu_seqlens_q = {100, 60, 20, 0}, .cu_seqlens_k = {100, 60, 20, 0}, .seqused_q = {}, .seqused_k = {}},
    {.cu_seqlens_q = {-50, -20, 30, 60}, .cu_seqlens_k = {-9, 30, -60, 90}, .seqused_q = {}, .seqused_k = {}},
    {.cu_seqlens_q = {0, 90, 200, 5000},
     .cu_seqlens_k = {70, 900, 100, 1000},
     .seqused_q = {},
     .seqused_k = {}},
    {.cu_seqlens_q = {0, 108, 108, 108}, .cu_seqlens_k = {0, 0, 108, 108}, .seqused_q = {}, .seqused_k = {}},
    {.cu_seqlens_q = {0, 30, 60, 90},
     .cu_seqlens_k = {0, 30, 60, 90},
     .seqused_q = {-7, kHighest, 31},
     .seqused_k = {kLowest, 90, 5}},
    {.cu_seqlens_q = {kHighest, kLowest, kHighest, kLowest},
     .cu_seqlens_k = {kLowest, kHighest, kLowest, kHighest},
     .seqused_q = {kHighest, kHighest, kHighest},
     .seqused_k = {kHighest, kLowest, kHighest}}};

}  // namespace

TEST_CASE("invalid tables of lengths: only rows of sequences within the tensor are written") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const Lengths good({30, 50, 20});
  for (const std::string& config : configs()) {
    INFO(config);
    Context context(pinning(parse_config(config)));
    GuardedCall call = call_of(good, Packing::packed);
    for (const SequenceTables& bad : kBadTables) {
      call.tables = bad;
      call.upload();
      context.attention(call.problem, call.args);
      CHECK(call.stray_writes().empty());
    }
    set_lengths(call, good, Packing::packed);
    call.upload();
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("invalid tables of lengths: only gradients of sequences' rows are written") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const Lengths good({30, 50, 20});
  const AttentionProblem problem = with_lengths(plain(), good, Packing::packed);
  Context context(untuned());
  GuardedBackward call(problem);
  for (const SequenceTables& bad : kBadTables) {
    call.forward.tables = bad;
    call.upload();
    context.attention_backward(problem, call.args());
    CHECK(call.stray_writes().empty());
  }
  set_lengths(call.forward, good, Packing::packed);
  call.upload();
  run_and_expect_gradients(context, call);
}

TEST_CASE("one captured graph serves any lengths in the same tables") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  for (const std::string& config : configs()) {
    INFO(config);
    Context context(pinning(parse_config(config)));
    GuardedCall call = call_of(Lengths({90, 100, 1, 60}), Packing::roomy);
    const AttentionPlan plan = context.plan(call.problem);
    const OwnedStream stream;
    CapturedGraph graph(stream.get());
    graph.begin();
    plan.run(call.args, stream.get());
    graph.end();
    for (const Lengths& lengths : {Lengths({90, 100, 1, 60}), Lengths({0, 0, 0, 0}), Lengths({3, 5, 64, 7}),
                                   Lengths({0, 100, 100, 0}, {107, 0, 80, 64})}) {
      call.randomize(13);
      set_lengths(call, lengths, Packing::roomy);
      poison_unseen(call);
      call.upload();
      graph.launch();
      stream.synchronize();
      expect_contract(call);
    }
  }
}

TEST_CASE("512 sequences, some of them long") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  std::vector<std::int32_t> lengths;
  for (std::int32_t b = 0; b < 512; ++b) lengths.push_back(b % 100 == 7 ? 900 : b * 37 % 131);
  for (const std::string& config : configs()) {
    INFO(config);
    Context context(pinning(parse_config(config)));
    for (const Packing packing : {Packing::packed, Packing::batched}) {
      GuardedCall call = call_of(Lengths(lengths), packing);
      run_and_expect_contract(context, call);
    }
  }
}
