// The tables of sequences are checked before a launch: on a GPU with FA2_CHECK=1, on the interpreter always.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fa2/errors.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "../support/gpu_backward.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr AttentionProblem kProblem{
    .head_dim = 64, .varlen = true, .batch = 3, .seqlen_q = 20, .seqlen_k = 30};

/// Holds the used length of each batched sequence.
class UsedTable {
 public:
  const std::int32_t* data() const { return static_cast<const std::int32_t*>(table_.data()); }
  void set(const std::vector<std::int32_t>& used) { table_.upload(used.data(), table_.size()); }
  /// Sets every length to -1 in stream order.
  void break_all(Stream stream) { table_.fill(0xff, stream); }

 private:
  DeviceBuffer table_{3 * sizeof(std::int32_t)};
};

struct UsedRows : UsedTable {
  UsedRows() {
    call.randomize(1);
    call.args.seqused_q = data();
  }

  GuardedCall call{kProblem};
};

/// While it lives, new contexts read tables before each launch. The interpreter always does.
class ScopedCheck {
 public:
  ScopedCheck() {
    if (device_under_test() != kInterpreterDevice) setenv("FA2_CHECK", "1", 1);
  }
  ~ScopedCheck() { unsetenv("FA2_CHECK"); }
  ScopedCheck(const ScopedCheck&) = delete;
  ScopedCheck& operator=(const ScopedCheck&) = delete;
};

bool is_untouched(const reference::Tensor& gradient) {
  return std::ranges::all_of(gradient.values, [](float x) { return std::isnan(x); });
}

void expect_refused(Context& context, const UsedRows& rows, const char* message, Stream stream = nullptr) {
  CHECK_THROWS_WITH_AS(context.attention(rows.call.problem, rows.call.args, stream),
                       doctest::Contains(message), InvalidRequest);
  CHECK(rows.call.is_untouched());
}

}  // namespace

TEST_CASE("checked tables: errors are reported before anything is written") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const ScopedCheck check;
  Context context(untuned());
  UsedRows rows;
  rows.set({0, 20, 21});
  expect_refused(context, rows, "seqused_q[2] = 21, must be in 0..20, the length of its sequence");
  const OwnedStream stream;
  rows.break_all(stream.get());
  expect_refused(context, rows, "seqused_q[0] = -1", stream.get());
  rows.set({0, 20, 1});
  CHECK_NOTHROW(context.attention(rows.call.problem, rows.call.args, stream.get()));
  stream.synchronize();
}

TEST_CASE("checked tables: a backward reports errors before anything is written") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const ScopedCheck check;
  Context context(untuned());
  UsedTable used;
  const GuardedBackward call(kProblem);
  BackwardArgs args = call.args();
  args.forward.seqused_k = used.data();
  used.set({30, 31, 0});
  CHECK_THROWS_WITH_AS(context.attention_backward(kProblem, args),
                       doctest::Contains("seqused_k[1] = 31, must be in 0..30, the length of its sequence"),
                       InvalidRequest);
  CHECK(is_untouched(call.dq()));
  CHECK(is_untouched(call.dk()));
  CHECK(call.stray_writes().empty());
  used.set({30, 30, 30});
  context.attention_backward(kProblem, args);
  expect_gradients(call);
}

TEST_CASE("checked tables: pieces of queries out of range are reported with their sequence") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const ScopedCheck check;
  Context context(untuned());
  AttentionProblem problem = kProblem;
  problem.query_pieces = true;
  GuardedCall call(problem);
  call.tables.query_pieces = {0, 0, 0, 21, 5, 4, 0, 0, -1};
  call.upload();
  for (const char* const message : {"query_pieces.table[1][0] = 21, must be in 0..20, the queries",
                                    "query_pieces.table[1][2] = 4, must be in 5..1073741804, from first on"})
    CHECK_THROWS_WITH_AS(context.attention(problem, call.args), doctest::Contains(message), InvalidRequest);
  CHECK(call.is_untouched());
}
