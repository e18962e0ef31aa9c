// The kernel that puts messages into memory of other ranks, on a rank whose peer is itself.
#include <doctest/doctest.h>
#include <runtime/device.h>

#include <cstdint>
#include <numeric>
#include <templates/attention/rows/put_params.cuh>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr int kThreads = 64;
constexpr std::size_t kWords = 20000;

struct Params {
  PutParams of;
};

const SmallKernel& kernel() {
  static const SmallKernel made{"struct Two { enum { warps = 2 }; }; put_messages<Two>(p.of);",
                                "PutParams of;",
                                kThreads,
                                1024,
                                {},
                                {"attention/rows/put.cuh"}};
  return made;
}

template <class Word>
Word* words(const DeviceBuffer& buffer) {
  return static_cast<Word*>(buffer.data());
}

}  // namespace

TEST_CASE("put: messages of any multiple of 4 bytes arrive, and flags are lowered again") {
  if (cannot_run()) return;
  const ScopedContext context(device_under_test());
  constexpr std::size_t kFlags = 2 * kPutBlocks;
  DeviceBuffer from(kWords * 4), to(kWords * 4), flags(kFlags * 4);
  std::vector<std::uint32_t> sent(kWords), expected(kWords, 0xffffffff), found(kWords), raised(kFlags);
  std::iota(sent.begin(), sent.end(), 1);
  from.upload(sent.data(), from.size());
  to.fill(0xff), flags.fill(0);
  Params p{};
  // The own rank first, whose messages need no flags, then a peer that is this rank again.
  p.of.peer_count = 2;
  p.of.peers[0].messages = 1;
  auto* const allowed = words<std::uint32_t>(flags);
  p.of.peers[1] = {allowed, allowed + kPutBlocks, allowed, allowed + kPutBlocks, 2, 1};
  const struct {
    std::size_t begin, count, to;
  } messages[] = {{0, 16000, 4}, {16004, 8, 16008}, {16013, 3001, 16021}};
  for (std::size_t i = 0; i < std::size(messages); ++i) {
    const auto& [begin, count, target] = messages[i];
    p.of.messages[i] = {words<std::uint32_t>(from) + begin, words<std::uint32_t>(to) + target,
                        static_cast<long long>(count * 4)};
    std::copy_n(sent.begin() + static_cast<std::ptrdiff_t>(begin), count,
                expected.begin() + static_cast<std::ptrdiff_t>(target));
  }
  const auto built = build(kernel());
  for (int run = 0; run < 2; ++run)
    launch(*built, p, Buffers{}.input(from).in_out(to).in_out(flags), kPutBlocks);
  to.download(found.data(), to.size());
  flags.download(raised.data(), flags.size());
  CHECK(found == expected);
  CHECK(raised == std::vector<std::uint32_t>(kFlags, 0));
}
