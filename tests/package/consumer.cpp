// A user's program: no CUDA header, no CUDA library, C++17.
#include <fa2/append.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fa2/merge.h>

#include <cstdio>
#include <string>

#define TEXT(x) #x
#define DOTTED(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

template <class Value>
static bool differs(const Value& value) {
  return value != Value() || !(value == Value());
}

int main() {
  if (std::string(fa2::version()) != DOTTED(FA2_VERSION_MAJOR, FA2_VERSION_MINOR, FA2_VERSION_PATCH))
    return 2;
  fa2::AppendProblem append;
  fa2::MergeProblem merge;
  fa2::Gradients gradients;
  if (differs(append) || differs(merge) || differs(gradients)) return 3;
  append.max_pages = 1, merge.seqlen = 2, gradients.determinism = fa2::Determinism::bitwise;
  if (!differs(append) || !differs(merge) || !differs(gradients)) return 4;
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
