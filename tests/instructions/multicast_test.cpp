// TMA loads for several blocks of a cluster, on the device under test.
#include <doctest/doctest.h>
#include <runtime/device.h>
#include <runtime/tensor_map.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr int kColumns = 64, kRows = 64, kRowsOfBox = 8, kThreads = 128;

struct Params {
  TensorMap map;
  float* out;
};

/// A tensor of 16-bit elements that are numbered, in boxes of kRowsOfBox rows.
TensorMap map_of(void* data) {
  TensorMapSpec spec;
  spec.data = data;
  spec.swizzle = Swizzle::none;
  spec.dimensions[0] = {kColumns, 0, kColumns};
  spec.dimensions[1] = {kRows, 2 * kColumns, kRowsOfBox};
  return encode_tensor_map(spec);
}

/// In two rounds each block loads a box, one round for all blocks and one for the next block. Each thread writes the first
/// element of 16 bytes of every box that its block has received: blocks * 64 of the first round, 64 of the second.
const SmallKernel kKernel = {R"(
    const SharedAddress s = dynamic_shared(), all = s + 8 * 1024, one = all + 8;
    const u32 rank = block_rank_in_cluster(), blocks = blocks_in_cluster();
    const int t = thread_index();
    if (t == 0) {
      mbarrier_init(all, 1);
      mbarrier_init(one, 1);
      fence_mbarrier_init();
      mbarrier_arrive_expect_tx(all, 1024 * static_cast<int>(blocks));
      mbarrier_arrive_expect_tx(one, 1024);
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    float* const out = p.out + (blocks + 1) * 64 * block_index();
    const TensorCoordinates box = {{0, static_cast<int>(8 * rank), 0, 0, 0}};
    if (t == 0) tma_load_multicast(s + 1024 * rank, p.map, box, all, static_cast<u16>((1u << blocks) - 1));
    mbarrier_wait(all, 0);
    for (int i = t; i < 64 * static_cast<int>(blocks); i += 128)
      st_global_f32(out + i, static_cast<float>(ld_shared_v4(s + 16 * i).word[0] & 0xffff));
    barrier_cluster_arrive();
    barrier_cluster_wait();
    if (t == 0) tma_load_multicast(s, p.map, box, one, static_cast<u16>(1u << (rank + 1) % blocks));
    mbarrier_wait(one, 0);
    if (t < 64) st_global_f32(out + 64 * blocks + t, static_cast<float>(ld_shared_v4(s + 16 * t).word[0] & 0xffff));
    barrier_cluster_arrive();
    barrier_cluster_wait();)",
                             "TensorMap map; float* out;", kThreads, 8 * 1024 + 16};

}  // namespace

TEST_CASE("a box reaches every block of the cluster that the mask names") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  std::vector<std::uint16_t> numbers(kRows * kColumns);
  std::iota(numbers.begin(), numbers.end(), static_cast<std::uint16_t>(0));
  DeviceBuffer tensor(2 * numbers.size());
  tensor.upload(numbers.data(), tensor.size());
  const auto kernel = build(kKernel);
  for (const int cluster : {1, 2, 4, 8}) {
    const int blocks = 2 * cluster, per_block = (cluster + 1) * 64;
    std::vector<float> values(static_cast<std::size_t>(blocks * per_block));
    DeviceBuffer out(values.size() * sizeof(float));
    launch(*kernel, Params{map_of(tensor.data()), static_cast<float*>(out.data())},
           Buffers{}.input(tensor).output(out), blocks, cluster);
    out.download(values.data(), out.size());
    for (int block = 0; block < blocks; ++block) {
      CAPTURE(block);
      const float* const at = values.data() + block * per_block;
      const int previous = (block % cluster + cluster - 1) % cluster;
      bool all = true, one = true;
      for (int i = 0; i < 64 * cluster; ++i) all &= at[i] == static_cast<float>(8 * i);
      for (int i = 0; i < 64; ++i) one &= at[64 * cluster + i] == static_cast<float>(8 * (64 * previous + i));
      CHECK(all);
      CHECK(one);
    }
  }
}
