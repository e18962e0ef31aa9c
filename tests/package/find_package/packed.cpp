// A program that has its kernels linked in, and may compile none.
#include <fa2/attention.h>

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  fa2::AttentionProblem problem;
  problem.head_dim = 64;
  problem.seqlen_q = problem.seqlen_k = 32;
  const std::uint16_t one = 0x3c00;  // 1 in float16
  std::vector<std::uint16_t> in(32 * 64, one), out(in.size());
  const fa2::AttentionPlan plan = fa2::Context::default_context().plan(problem, fa2::kInterpreterDevice);
  plan.run(fa2::bshd_args(problem, in.data(), in.data(), in.data(), out.data()));
  for (const std::uint16_t element : out) {
    if (element != one) return 1;  // the mean of ones
  }
  const fa2::KernelReport& kernel = plan.explain().kernels.at(0);
  std::printf("a kernel from %s\n", kernel.path.c_str());
  return kernel.origin == fa2::KernelOrigin::read_only_cache ? 0 : 2;
}
