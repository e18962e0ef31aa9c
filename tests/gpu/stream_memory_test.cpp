// Stream-ordered scratch memory on a GPU: concurrent streams, graphs, and how much the pool keeps.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/driver.h>
#include <runtime/stream_memory.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "../support/captured_graph.h"
#include "../support/captured_log.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::size_t kBytes = 3 << 20;

bool no_pools() {
  if (device_count() == 0) {
    MESSAGE("skipped: no CUDA GPU");
    return true;
  }
  const ScopedContext current(0);
  const ScratchPool pool;
  if (pool.handle() != nullptr) return false;
  CHECK_THROWS_AS(pool.take(kBytes, nullptr), Unavailable);
  MESSAGE("skipped: the GPU has no memory pools");
  return true;
}

CUdeviceptr address(const void* data) {
  return reinterpret_cast<CUdeviceptr>(data);
}

/// Takes kBytes, fills them with `value`, copies them to `out` and returns them, all on `stream`.
void pass_through(const ScratchPool& pool, std::uint8_t value, const DeviceBuffer& out, Stream stream) {
  const StreamMemory scratch = pool.take(kBytes, stream);
  const CUdeviceptr at = address(scratch.data());
  fa2::check(driver().memset_d8_async(at, value, kBytes, stream), "cuMemsetD8Async");
  fa2::check(driver().memcpy_async(address(out.data()), at, kBytes, stream), "cuMemcpyAsync");
}

bool holds(const DeviceBuffer& buffer, std::uint8_t value) {
  std::vector<std::uint8_t> bytes(buffer.size());
  buffer.download(bytes.data(), bytes.size());
  return bytes == std::vector<std::uint8_t>(bytes.size(), value);
}

/// Returns the bytes of device memory that a pool holds.
std::uint64_t reserved_by(const ScratchPool& pool) {
  const auto get =
      reinterpret_cast<PFN_cuMemPoolGetAttribute_v11020>(driver_function("cuMemPoolGetAttribute", 11020));
  cuuint64_t bytes = 0;
  fa2::check(get(pool.handle(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes), "cuMemPoolGetAttribute");
  return bytes;
}

}  // namespace

TEST_CASE("stream memory: two streams at the same time use different memory") {
  if (no_pools()) return;
  const ScopedContext current(0);
  const ScratchPool pool;
  const OwnedStream streams[2];
  const DeviceBuffer out[2] = {DeviceBuffer(kBytes), DeviceBuffer(kBytes)};
  for (std::uint8_t round = 0; round < 10; ++round) {
    for (std::uint8_t i = 0; i < 2; ++i)
      pass_through(pool, static_cast<std::uint8_t>(2 * round + i + 1), out[i], streams[i].get());
    for (std::uint8_t i = 0; i < 2; ++i) {
      streams[i].synchronize();
      CHECK(holds(out[i], static_cast<std::uint8_t>(2 * round + i + 1)));
    }
  }
  const StreamMemory first = pool.take(kBytes, streams[0].get());
  const StreamMemory second = pool.take(kBytes, streams[1].get());
  const CUdeviceptr a = address(first.data()), b = address(second.data());
  CHECK((a + kBytes <= b || b + kBytes <= a));
}

TEST_CASE("stream memory: any size is aligned; none is null, too much is an error") {
  if (no_pools()) return;
  const ScopedContext current(0);
  const ScratchPool pool;
  const OwnedStream stream;
  std::vector<StreamMemory> taken;
  for (const std::size_t bytes : {1, 4, 255, 257, 100000}) {
    taken.push_back(pool.take(bytes, stream.get()));
    REQUIRE(taken.back().data() != nullptr);
    CHECK(address(taken.back().data()) % 256 == 0);
  }
  CHECK(pool.take(0, stream.get()).data() == nullptr);
  CHECK(pool.take(kBytes, nullptr).data() != nullptr);  // the default stream
  CHECK_THROWS_AS(pool.take(std::size_t{1} << 60, stream.get()), CudaError);
}

TEST_CASE("stream memory: a pool keeps its memory when streams are synchronised, and needs no more") {
  if (no_pools()) return;
  const ScopedContext current(0);
  const ScratchPool pool;
  CHECK(reserved_by(pool) == 0);
  const OwnedStream stream;
  const DeviceBuffer out(kBytes);
  pass_through(pool, 1, out, stream.get());
  const std::uint64_t reserved = reserved_by(pool);
  CHECK(reserved >= kBytes);
  for (int i = 0; i < 5; ++i) {
    stream.synchronize();
    CHECK(reserved_by(pool) == reserved);
    pass_through(pool, 1, out, stream.get());
  }
  stream.synchronize();
}

TEST_CASE("stream memory: a graph has its memory in each launch, even after its pool is destroyed") {
  if (no_pools()) return;
  const ScopedContext current(0);
  const CapturedLog log;
  const OwnedStream stream;
  DeviceBuffer out(kBytes);
  CapturedGraph graph(stream.get());
  graph.begin();
  {
    const ScratchPool pool;  // created and destroyed during the capture
    pass_through(pool, 7, out, stream.get());
  }
  graph.end();
  for (int launch = 0; launch < 2; ++launch) {
    out.fill(0, stream.get());
    graph.launch();
    stream.synchronize();
    CHECK(holds(out, 7));
  }
  CHECK(log.text() == "");
}

TEST_CASE("stream memory: graphs and streams share a pool") {
  if (no_pools()) return;
  const ScopedContext current(0);
  const ScratchPool pool;
  const OwnedStream captured, other;
  const DeviceBuffer out[2] = {DeviceBuffer(kBytes), DeviceBuffer(kBytes)};
  pass_through(pool, 1, out[0], captured.get());
  captured.synchronize();
  CapturedGraph graph(captured.get());
  graph.begin();
  pass_through(pool, 2, out[0], captured.get());
  graph.end();
  graph.launch();
  pass_through(pool, 3, out[1], other.get());
  captured.synchronize();
  other.synchronize();
  CHECK(holds(out[0], 2));
  CHECK(holds(out[1], 3));
}

TEST_CASE("stream memory: memory may be returned after its pool is destroyed") {
  if (no_pools()) return;
  const ScopedContext current(0);
  const CapturedLog log;
  const OwnedStream stream;
  DeviceBuffer out(kBytes);
  {
    std::optional<ScratchPool> pool(std::in_place);
    const StreamMemory scratch = pool->take(kBytes, stream.get());
    pool.reset();
    fa2::check(driver().memset_d8_async(address(scratch.data()), 5, kBytes, stream.get()), "cuMemsetD8Async");
    fa2::check(driver().memcpy_async(address(out.data()), address(scratch.data()), kBytes, stream.get()),
               "cuMemcpyAsync");
  }
  stream.synchronize();
  CHECK(holds(out, 5));
  CHECK(log.text() == "");
}
