// FA2_CHECK on a GPU: without it, and while a stream captures, nothing is checked.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>

#include <cstdint>
#include <cstdlib>

#include "../support/captured_graph.h"
#include "../support/captured_log.h"
#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("checked tables: without FA2_CHECK and during a capture nothing is read back") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  GuardedCall call({.head_dim = 64, .varlen = true, .batch = 3, .seqlen_q = 20, .seqlen_k = 30});
  call.randomize(1);
  DeviceBuffer used(3 * sizeof(std::int32_t));
  used.fill(0xff);  // -1: no row counts
  call.args.seqused_q = static_cast<const std::int32_t*>(used.data());
  const OwnedStream stream;

  Context unchecked(untuned());
  CHECK_NOTHROW(unchecked.attention(call.problem, call.args, stream.get()));
  stream.synchronize();

  setenv("FA2_CHECK", "1", 1);
  Context context(untuned());
  unsetenv("FA2_CHECK");
  const AttentionPlan plan = context.plan(call.problem, 0);
  const CapturedLog log;
  CapturedGraph graph(stream.get());
  graph.begin();
  CHECK_NOTHROW(plan.run(call.args, stream.get()));
  CHECK_NOTHROW(plan.run(call.args, stream.get()));
  graph.end();
  CHECK(log.lines() == 1);
  CHECK(log.has("FA2_CHECK=1"));
  graph.launch();
  stream.synchronize();
}
