// The inputs of a benchmark.
#include <doctest/doctest.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>
#include <tools/bench_inputs.h>

#include <string>
#include <vector>

using namespace fa2;

TEST_CASE("bench inputs: valid arguments for problems with any variants, in memory that all share") {
  const ScopedContext current(kInterpreterDevice);
  std::vector<AttentionProblem> problems;
  for (int variants = 0; variants < 32; ++variants) {
    AttentionProblem p{.head_dim = 64, .batch = 2, .heads_q = 1 + variants % 5};
    p.seqlen_q = p.seqlen_k = 32;
    if (variants & 1) p.window_left = 7;
    p.softcap = variants & 2, p.alibi = variants & 4, p.sinks = variants & 8;
    p.varlen = variants & 16;
    if (p.varlen && variants % 3 > 0) p.total_q = 40;
    if (p.varlen && variants % 3 > 1) p.total_k = 50;
    problems.push_back(p.normalized());
  }
  // Two sequences per side.
  const tools::BenchInputs inputs(
      problems, {.cu_seqlens_q = {0, 15, 40}, .cu_seqlens_k = {0, 32, 50}, .seqused_q = {}, .seqused_k = {}},
      tools::Direction::backward);
  const float* of_heads = nullptr;
  for (const AttentionProblem& p : problems) {
    CAPTURE(to_string(p));
    const AttentionArgs args = inputs.args(p);
    CHECK(violations_of(PlannedProblem(p, {}), args).empty());
    const BackwardArgs backward = inputs.backward_args(p);
    CHECK(violations_of(PlannedProblem(p, {}), {}, backward, backward_operands_of(p, backward)).empty());
    if (args.cu_seqlens_q != nullptr) CHECK(args.cu_seqlens_q[p.batch] == p.total_q);
    if (args.cu_seqlens_k != nullptr) CHECK(args.cu_seqlens_k[p.batch] == p.total_k);
    if (!p.alibi) continue;
    of_heads = args.alibi_slopes;
    const auto h = static_cast<std::size_t>(p.heads_q - 1);
    CHECK(of_heads[h] > 0);
    CHECK(of_heads[h] < 1);
  }
  REQUIRE(of_heads != nullptr);
  CHECK(of_heads[4] == 1.0f / 256);  // as in the paper, for the largest number of heads
}
