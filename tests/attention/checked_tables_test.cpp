// FA2_CHECK=1, and the interpreter without it: what tables of sequences hold is judged before a launch.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Batched sequences, as many rows of which count as a table says.
class UsedRows {
 public:
  UsedRows() {
    call.randomize(1);
    call.args.seqused_q = static_cast<const std::int32_t*>(table_.data());
  }

  void set(const std::vector<std::int32_t>& used) { table_.upload(used.data(), table_.size()); }
  /// To -1, once `stream` comes to it.
  void break_all(Stream stream) { table_.fill(0xff, stream); }

  GuardedCall call{{.head_dim = 64, .varlen = true, .batch = 3, .seqlen_q = 20, .seqlen_k = 30}};

 private:
  DeviceBuffer table_{3 * sizeof(std::int32_t)};
};

void expect_refused(Context& context, const UsedRows& rows, const char* message, Stream stream = nullptr) {
  CHECK_THROWS_WITH_AS(context.attention(rows.call.problem, rows.call.args, stream),
                       doctest::Contains(message), InvalidRequest);
  CHECK(rows.call.is_untouched());
}

}  // namespace

TEST_CASE("checked tables: what is wrong in them is told before anything is written") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  if (device_under_test() != kInterpreterDevice) setenv("FA2_CHECK", "1", 1);
  Context context(untuned());
  unsetenv("FA2_CHECK");
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
