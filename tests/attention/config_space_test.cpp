// Every config that a search may try, pinned, under the numerics contract.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <generator/config_space.h>
#include <generator/kernel_source.h>
#include <interpreter/host_compiler.h>
#include <runtime/compiler.h>
#include <runtime/device.h>
#include <runtime/disk_cache.h>
#include <runtime/kernel_cache.h>
#include <runtime/parallel.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../support/config_spread.h"
#include "../support/gpu_attention.h"
#include "../support/refusals.h"

using namespace fa2;
using namespace fa2::test;

namespace {

PlannedProblem problem_of(DType dtype, int dim, int dim_v, RowAlignment alignment) {
  return {{.dtype = dtype,
           .head_dim = dim,
           .head_dim_v = dim_v,
           .mask = MaskKind::causal_bottom_right,
           .heads_q = 2,
           .heads_kv = 1,
           .seqlen_q = 131,
           .seqlen_k = 197},
          {alignment}};
}

/// Compiles the kernels into the tests' cache on every core. The cache keeps refusals too.
void compile_all(const std::vector<KernelConfig>& configs, const AttentionTraits& traits, const Arch& arch) {
  const auto user = std::make_shared<DiskCache>(untuned().cache_dir.value(), DiskCache::Access::read_write);
  KernelCache cache(arch.interpreted ? interpreter::make_host_compiler() : make_nvrtc_compiler(), {}, user,
                    JitMode::on);
  for_each_index(configs.size(), static_cast<int>(std::thread::hardware_concurrency()), [&](std::size_t i) {
    try {
      cache.get(render({traits, configs[i], arch}));
    } catch (const KernelRefused& refused) {
      discard_source(refused);
    }
  });
}

/// Returns whether the kernel ran. One that lacks registers does not.
bool run_pinned(const KernelConfig& config, GuardedCall& call, const PlanOptions& plan) {
  ContextOptions options = pinning(config);
  options.jit = JitMode::off;  // everything has been compiled
  Context context(options);
  INFO(to_string(config));
  call.upload();
  try {
    context.attention(call.problem, call.args);
  } catch (const KernelRefused& refused) {
    CHECK_MESSAGE(lacks_registers(refused.reason()), refused.reason());
    return false;
  }
  expect_contract(call);
  const KernelReport kernel = context.plan(call.problem, device_under_test(), plan).explain().kernels.at(0);
  CHECK(kernel.config == config);
  CHECK(kernel.config_origin == ConfigOrigin::pinned);
  return true;
}

void check_space(const PlannedProblem& problem) {
  const Arch& arch = device(device_under_test()).arch;
  const std::vector<KernelConfig> configs = spread_over(config_space(traits_of(problem), arch).valid);
  compile_all(configs, traits_of(problem), arch);
  GuardedCall call(
      problem,
      layouts_of(problem, problem.row_alignment == RowAlignment::element ? misaligned : guarded_bshd));
  std::size_t ran = 0;
  for (const KernelConfig& config : configs) ran += run_pinned(config, call, problem);
  MESSAGE(to_string(problem) << ": " << configs.size() << " configurations, " << ran << " ran, "
                             << configs.size() - ran << " lack registers");
  CHECK(ran > 0);
}

}  // namespace

TEST_CASE("every configuration computes f16 d64") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  check_space(problem_of(DType::f16, 64, 64, RowAlignment::bytes16));
}

TEST_CASE("every configuration computes bf16 d128") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  check_space(problem_of(DType::bf16, 128, 128, RowAlignment::bytes16));
}

TEST_CASE("every configuration computes f16 d40 with values of 72") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  check_space(problem_of(DType::f16, 40, 72, RowAlignment::bytes16));
}

TEST_CASE("every configuration computes f16 d256") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  check_space(problem_of(DType::f16, 256, 256, RowAlignment::bytes16));
}

TEST_CASE("every configuration computes misaligned f16 d64") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  check_space(problem_of(DType::f16, 64, 64, RowAlignment::element));
}
