// The sm_90a instructions of templates/ptx compile with NVRTC without spills and without serialised wgmmas;
// the compiler refuses both.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/compiler.h>
#include <runtime/parallel.h>

#include <string>
#include <thread>
#include <vector>

#include "../instructions/exchange_kernel.h"
#include "../instructions/pipeline_kernel.h"
#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

std::string error_of(const SmallKernel& kernel) {
  try {
    make_nvrtc_compiler()->compile(source_of(kernel, *find_arch("sm_90a")));
    return {};
  } catch (const CompileError& error) {
    discard_source(error);
    return std::string(error.what()) + "\n" + error.log();
  }
}

/// Returns a kernel that keeps all accumulators of one width in flight, with A in shared memory and in
/// registers.
SmallKernel kernel_of_width(int n) {
  const DType element = n % 16 == 0 ? DType::f16 : DType::bf16;
  const std::string types = (n % 16 == 0 ? "<Half, " : "<BFloat16, ") + std::to_string(n);
  const std::string body = "float d[" + std::to_string(n / 2) + R"(];
    u32 a[4] = {ld_shared_u32(dynamic_shared()), 1, 2, 3};
    const MatrixDescriptor tile = matrix_descriptor<Swizzle::span64>(dynamic_shared(), 512, 512);
    hold_registers(a);
    wgmma_fence();
    wgmma_ss)" + types + R"(, Major::mn, Major::k>(d, tile, tile);
    wgmma_rs)" + types + R"(, Major::mn>(d, a, tile.advanced(32), p.accumulate != 0);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    hold_registers(d);
    for (float value : d) red_add_global_f32(p.sum, value);)";
  return {body,
          "float* sum; int accumulate;",
          128,
          32768,
          {{element, n, WgmmaOperand::mn_major, WgmmaOperand::k_major},
           {element, n, WgmmaOperand::registers, WgmmaOperand::mn_major}}};
}

}  // namespace

TEST_CASE("a warp-specialised pipeline compiles without spills and without serialised warpgroup MMAs") {
  if (nvrtc_missing()) return;
  CHECK(error_of(pipelined_kernel()) == "");
}

TEST_CASE("instructions that the pipeline does not use compile too") {
  if (nvrtc_missing()) return;
  CHECK(error_of({R"(
    bar_arrive(3, 64);
    fence_proxy_async();
    prefetch_tensor_map(p.map);
    bulk_load(dynamic_shared(), p.data, 512, dynamic_shared() + 512);
    bulk_reduce_add_f32(p.data, dynamic_shared(), 512);
    bulk_wait_group<2>();
    launch_dependents();
    wait_for_launches_before();
    const u32 blocks[4] = {1, block_rank_in_cluster(), blocks_in_cluster(), atom_add_global_u32(p.counter, 5)};
    stmatrix_x4_trans(dynamic_shared(), blocks);)",
                  "TensorMap map; float* data; u32* counter;"}) == "");
}

TEST_CASE("accesses to the memory of other blocks compile") {
  if (nvrtc_missing()) return;
  CHECK(error_of(exchange_kernel()) == "");
  CHECK(error_of({R"(
    const ClusterAddress there = mapa(dynamic_shared(), block_rank_in_cluster() ^ 1);
    barrier_cluster_arrive();
    barrier_cluster_wait();
    st_cluster_u32(there, ld_cluster_u32(there + 4));
    st_cluster_v4(there + 32, ld_cluster_v4(there + 16));
    tma_load_multicast(dynamic_shared(), p.map, {{0, 0, 0, 0, 0}}, dynamic_shared() + 512, 3);)",
                  "TensorMap map;"}) == "");
}

TEST_CASE("warpgroup MMAs of every width compile") {
  if (nvrtc_missing()) return;
  std::vector<std::string> errors(32);
  for_each_index(errors.size(), static_cast<int>(std::thread::hardware_concurrency()),
                 [&](std::size_t i) { errors[i] = error_of(kernel_of_width(8 * static_cast<int>(i) + 8)); });
  for (const std::string& error : errors) CHECK(error == "");
}
