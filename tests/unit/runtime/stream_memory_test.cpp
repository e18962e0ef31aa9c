// Scratch memory on the interpreter: a stream is the calling thread, and memory is the host's.
#include <doctest/doctest.h>
#include <runtime/device.h>
#include <runtime/parallel.h>
#include <runtime/stream_memory.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

using namespace fa2;

namespace {

bool is_aligned(const StreamMemory& memory) {
  return memory.data() != nullptr && reinterpret_cast<std::uintptr_t>(memory.data()) % 256 == 0;
}

}  // namespace

static_assert(!std::is_copy_constructible_v<StreamMemory> &&
              std::is_nothrow_move_constructible_v<StreamMemory>);

TEST_CASE("stream memory: on the interpreter it is writable, aligned and separate from other memory") {
  const ScopedContext current(kInterpreterDevice);
  const ScratchPool pool;
  CHECK(pool.handle() == nullptr);
  constexpr std::size_t kSizes[] = {1, 4, 255, 256, 257, 100000};
  std::vector<StreamMemory> taken;
  for (const std::size_t bytes : kSizes) {
    CAPTURE(bytes);
    taken.push_back(pool.take(bytes, nullptr));
    REQUIRE(is_aligned(taken.back()));
    std::memset(taken.back().data(), static_cast<int>(taken.size()), bytes);
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto* const bytes = static_cast<const std::uint8_t*>(taken[i].data());
    CHECK(std::vector<std::uint8_t>(bytes, bytes + kSizes[i]) ==
          std::vector<std::uint8_t>(kSizes[i], static_cast<std::uint8_t>(i + 1)));
  }
}

TEST_CASE("stream memory: nothing is taken for 0 bytes") {
  const ScopedContext current(kInterpreterDevice);
  CHECK(ScratchPool().take(0, nullptr).data() == nullptr);
}

TEST_CASE("stream memory: moved memory is returned once, even after its pool is destroyed") {
  const ScopedContext current(kInterpreterDevice);
  std::optional<ScratchPool> pool(std::in_place);
  StreamMemory first = pool->take(64, nullptr);
  void* const data = first.data();
  StreamMemory second = std::move(first);
  CHECK(first.data() == nullptr);  // NOLINT(bugprone-use-after-move): what a move leaves
  CHECK(second.data() == data);
  second = pool->take(32, nullptr);
  pool.reset();
  std::memset(second.data(), 1, 32);
}

TEST_CASE("stream memory: threads take from one pool") {
  const ScopedContext current(kInterpreterDevice);
  const ScratchPool pool;
  std::vector<int> failures(8);
  for_each_index(failures.size(), static_cast<int>(failures.size()), [&](std::size_t i) {
    for (int round = 0; round < 200; ++round) {
      const StreamMemory memory = pool.take(1000, nullptr);
      auto* const bytes = static_cast<std::uint8_t*>(memory.data());
      std::memset(bytes, static_cast<int>(i), 1000);
      if (!is_aligned(memory) || bytes[0] != i || bytes[999] != i) ++failures[i];
    }
  });
  CHECK(failures == std::vector<int>(8));
}
