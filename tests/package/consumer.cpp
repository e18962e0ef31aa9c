// A user's program: no CUDA header, no CUDA library, C++17.
#include <fa2/attention.h>

#include <cstdio>

int main() {
  fa2::AttentionProblem problem;
  problem.head_dim = 7;
  problem.heads_q = 4;
  problem.heads_kv = 3;
  try {
    fa2::attention(problem, fa2::bshd_args(problem, nullptr, nullptr, nullptr, nullptr));
  } catch (const fa2::InvalidRequest& error) {
    std::printf("fa2 %s lists %zu violations\n", fa2::version(), error.violations().size());
    return error.violations().size() >= 2 ? 0 : 1;
  }
  return 1;
}
