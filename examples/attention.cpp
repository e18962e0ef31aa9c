// fa2 from C++: one causal attention over device buffers. Link libfa2 and nothing else.
#include <dlfcn.h>
#include <fa2/attention.h>

#include <cstdio>
#include <cstdlib>

namespace {

/// Returns device memory from cudaMalloc, which is looked up at run time so that the example builds without CUDA. fa2 takes any
/// device pointer.
void* device_memory(std::size_t bytes) {
  static void* runtime = dlopen("libcudart.so", RTLD_NOW);
  if (runtime == nullptr) return nullptr;
  const auto allocate = reinterpret_cast<int (*)(void**, std::size_t)>(dlsym(runtime, "cudaMalloc"));
  void* pointer = nullptr;
  return allocate != nullptr && allocate(&pointer, bytes) == 0 ? pointer : nullptr;
}

}  // namespace

int main() {
  fa2::AttentionProblem problem;
  problem.dtype = fa2::DType::bf16;
  problem.mask = fa2::MaskKind::causal_bottom_right;
  problem.head_dim = 128;
  problem.batch = 2;
  problem.heads_q = 32;
  problem.heads_kv = 8;
  problem.seqlen_q = problem.seqlen_k = 4096;

  const std::size_t q_bytes = std::size_t{2} * 4096 * 32 * 128 * 2, kv_bytes = q_bytes / 4;
  try {
    fa2::attention(problem, fa2::bshd_args(problem, device_memory(q_bytes), device_memory(kv_bytes),
                                           device_memory(kv_bytes), device_memory(q_bytes)));
  } catch (const fa2::Error& error) {
    std::printf("%s\n", error.what());
    return EXIT_FAILURE;
  }
  std::printf("launched\n");
  return EXIT_SUCCESS;
}
