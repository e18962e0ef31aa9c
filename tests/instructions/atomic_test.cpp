// Atomics on global memory on the device under test, with many blocks at once.
#include <doctest/doctest.h>
#include <runtime/device.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr int kBlocks = 64, kThreads = 32;

struct Params {
  std::uint32_t* counter;
  float* sums;
  float* tickets;
};
constexpr const char* kParams = "u32* counter; float* sums; float* tickets;";

struct Memory {
  DeviceBuffer counter{sizeof(std::uint32_t)};
  DeviceBuffer sums{kThreads * sizeof(float)};
  DeviceBuffer tickets{kBlocks * kThreads * sizeof(float)};

  Memory() {
    counter.fill(0);
    sums.fill(0);
  }
  void run(const char* body) {
    launch(*build({body, kParams, kThreads, 1024}),
           Params{static_cast<std::uint32_t*>(counter.data()), static_cast<float*>(sums.data()),
                  static_cast<float*>(tickets.data())},
           Buffers{}.in_out(counter).in_out(sums).output(tickets), kBlocks);
  }
  std::uint32_t count() const {
    std::uint32_t value = 0;
    counter.download(&value, sizeof value);
    return value;
  }
  std::vector<float> sorted_tickets() const {
    std::vector<float> values(kBlocks * kThreads);
    tickets.download(values.data(), tickets.size());
    std::sort(values.begin(), values.end());
    return values;
  }
};

}  // namespace

TEST_CASE("atom.add gives every thread a different ticket") {
  if (cannot_run()) return;
  const ScopedContext context(device_under_test());
  Memory memory;
  memory.run(R"(
    st_global_f32(p.tickets + block_index() * 32 + thread_index(), static_cast<float>(atom_add_global_u32(p.counter, 3)));)");
  CHECK(memory.count() == 3 * kBlocks * kThreads);
  const std::vector<float> tickets = memory.sorted_tickets();
  for (std::size_t i = 0; i < tickets.size(); ++i) CHECK(tickets[i] == static_cast<float>(3 * i));
}

TEST_CASE("atom.inc wraps to 0 at its limit") {
  if (cannot_run()) return;
  const ScopedContext context(device_under_test());
  Memory memory;
  memory.run(R"(
    st_global_f32(p.tickets + block_index() * 32 + thread_index(), static_cast<float>(atom_inc_global_u32(p.counter, 511)));)");
  CHECK(memory.count() == 0);  // 2048 = 4 x 512
  const std::vector<float> tickets = memory.sorted_tickets();
  for (std::size_t i = 0; i < tickets.size(); ++i) CHECK(tickets[i] == static_cast<float>(i / 4));
}

// The last thread to arrive sees what all others have stored.
TEST_CASE("atom.acq_rel.add orders earlier stores") {
  if (cannot_run()) return;
  const ScopedContext context(device_under_test());
  Memory memory;
  memory.run(R"(
    float* const all = p.tickets + 32;
    if (block_index() > 0) st_global_f32(all + (block_index() - 1) * 32 + thread_index(), 1.0f);
    bar_warp_sync();
    u32 before = 0;
    if (thread_index() == 0) before = atom_add_acq_rel_global_u32(p.counter, 1);
    if (shfl_idx(static_cast<int>(before), 0) != 63) return;
    if (thread_index() == 0) st_release_global_u32(p.counter, 0);
    float sum = 0.0f;
    for (int i = 0; i < 63 * 8; i += 1) {
      float value[4];
      ld_global_v4_f32(all + 4 * i, value);
      sum += value[0] + value[1] + value[2] + value[3];
    }
    st_global_f32(p.tickets + thread_index(), sum);)");
  CHECK(memory.count() == 0);
  std::vector<float> sums(kThreads);
  memory.tickets.download(sums.data(), sums.size() * sizeof(float));
  for (const float sum : sums) CHECK(sum == 63 * 32);
}

TEST_CASE("red.add sums float32 over all blocks") {
  if (cannot_run()) return;
  const ScopedContext context(device_under_test());
  Memory memory;
  memory.run(R"(
    red_add_global_f32(p.sums + thread_index(), static_cast<float>(block_index()) * 0.5f);
    st_global_f32(p.tickets + block_index() * 32 + thread_index(), 0.0f);)");
  std::vector<float> sums(kThreads);
  memory.sums.download(sums.data(), memory.sums.size());
  for (const float sum : sums) CHECK(sum == 0.25f * kBlocks * (kBlocks - 1));
}

TEST_CASE("red.add sums 64-bit integers of either sign, beyond 32 bits") {
  if (cannot_run()) return;
  const ScopedContext context(device_under_test());
  Memory memory;
  memory.run(R"(
    i64* const sums = reinterpret_cast<i64*>(p.sums);
    if (thread_index() < 16) red_add_global_i64(sums + thread_index(), (static_cast<i64>(block_index()) << 34) - thread_index());
    st_global_f32(p.tickets + block_index() * 32 + thread_index(), 0.0f);)");
  std::vector<std::int64_t> sums(kThreads / 2);
  memory.sums.download(sums.data(), memory.sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    CHECK(sums[i] ==
          (std::int64_t{kBlocks * (kBlocks - 1) / 2} << 34) - kBlocks * static_cast<std::int64_t>(i));
}

TEST_CASE("red.max raises float32 of either sign, from -infinity on, and takes -0 for 0") {
  if (cannot_run()) return;
  const ScopedContext context(device_under_test());
  Memory memory;
  std::vector<float> sums(kThreads, -std::numeric_limits<float>::infinity());
  memory.sums.upload(sums.data(), memory.sums.size());
  memory.run(R"(
    // Columns: negative alone, of both signs, -0 above negative ones, and nothing above -infinity.
    const float block = static_cast<float>((block_index() * 37) % 64), column = static_cast<float>(thread_index());
    const float values[4] = {-1.0f - block - column, block - 32.0f, block == 7.0f ? -0.0f : -block - 1.0f, -infinity()};
    red_max_global_f32(p.sums + thread_index(), values[thread_index() % 4]);
    st_global_f32(p.tickets + block_index() * 32 + thread_index(), 0.0f);)");
  memory.sums.download(sums.data(), memory.sums.size());
  for (std::size_t i = 0; i < sums.size(); i += 4) {
    CHECK(sums[i] == -1.0f - static_cast<float>(i));
    CHECK(sums[i + 1] == 31);
    CHECK(sums[i + 2] == 0);
    CHECK(sums[i + 3] == -std::numeric_limits<float>::infinity());
  }
}

TEST_CASE("red.add of four floats sums each of them over all blocks") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  Memory memory;
  memory.run(R"(
    if (thread_index() % 4 == 0) {
      const float of_block = static_cast<float>(block_index());
      const float values[4] = {of_block, 0.5f * of_block, -of_block, static_cast<float>(thread_index())};
      red_add_global_v4_f32(p.sums + thread_index(), values);
    }
    st_global_f32(p.tickets + block_index() * 32 + thread_index(), 0.0f);)");
  std::vector<float> sums(kThreads);
  memory.sums.download(sums.data(), memory.sums.size());
  constexpr float kSum = 0.5f * kBlocks * (kBlocks - 1);
  for (std::size_t i = 0; i < sums.size(); i += 4) {
    CHECK(sums[i] == kSum);
    CHECK(sums[i + 1] == 0.5f * kSum);
    CHECK(sums[i + 2] == -kSum);
    CHECK(sums[i + 3] == static_cast<float>(kBlocks * i));
  }
}
