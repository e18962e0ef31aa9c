// The tensors that a search gives its candidates.
#include <autotune/candidates.h>
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <generator/kernel_source.h>
#include <interpreter/host_compiler.h>
#include <interpreter/interpreted_kernel.h>
#include <operation/rules/validate.h>
#include <planning/backward.h>
#include <planning/trials/trial_tensors.h>
#include <runtime/device.h>
#include <runtime/kernel_cache.h>
#include <runtime/written_bytes.h>
#include <tests/support/sanitizers.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace fa2;

namespace {

PlannedProblem problem_of(int variants, bool varlen) {
  AttentionProblem p{.head_dim = 64, .batch = 2, .heads_q = 4, .heads_kv = 2};
  p.seqlen_q = 40, p.seqlen_k = 60;
  if (variants & 1) p.window_left = 7;
  p.softcap = variants & 2, p.alibi = variants & 4, p.sinks = variants & 8;
  p.varlen = varlen;
  if (varlen) p.total_q = 70, p.total_k = 110;
  return PlannedProblem(p, {}).normalized();
}

std::uint16_t first_of(TrialTensors& tensors, Role role) {
  std::uint16_t value = 0;
  tensors[role].download(&value, sizeof value);
  return value;
}

/// Makes a problem's kernels on the interpreter, in place of a GPU.
class Steps {
 public:
  explicit Steps(const PlannedProblem& problem) : problem_(problem) {}

  Step of(const KernelConfig& config) {
    const KernelSource source = render({traits_of(problem_), config, interpreter_arch()});
    return backward_step(problem_, config,
                         interpreter::load_interpreted_kernel(*cache_.get(source).binary,
                                                              interpreter::options_from_environment()),
                         scratch_for(problem_));
  }

 private:
  PlannedProblem problem_;
  KernelCache cache_{interpreter::make_host_compiler(), {}, nullptr, JitMode::on};
};

/// Runs `delta` and `step`, and returns all that `step` writes.
std::vector<std::uint16_t> outputs_of(const Step& delta, const Step& step, TrialTensors& tensors) {
  WrittenBytes written;
  Call call = tensors.call();
  call.written = &written;
  launch(delta, call, nullptr);
  launch(step, call, nullptr);
  std::vector<std::uint16_t> values;
  for (const OperandUse& use : step.uses) {
    if (use.access == Access::read) continue;
    std::vector<std::uint16_t> output(tensors[use.role].size() / sizeof(std::uint16_t));
    tensors[use.role].download(output.data(), tensors[use.role].size());
    values.insert(values.end(), output.begin(), output.end());
  }
  return values;
}

}  // namespace

TEST_CASE("trial tensors: candidates of a pass agree on the gradients") {
  if (test::cannot_interpret()) return;
  const ScopedContext current(kInterpreterDevice);
  const OwnedStream stream;
  for (const KernelPass pass : {KernelPass::dq, KernelPass::dk_dv}) {
    TrialTensors tensors(problem_of(2 + 8, false), pass, {}, stream);
    const PlannedProblem& p = tensors.problem();
    Steps steps(p);
    const Step delta = steps.of(heuristic_choices(p, interpreter_arch(), KernelPass::delta).at(0).config);
    tensors.make_workspace(delta.scratch.bytes);
    const auto candidates = search_candidates(p, interpreter_arch(), TuneScope::all, pass);
    const auto first = outputs_of(delta, steps.of(candidates.front()), tensors);
    const auto last = outputs_of(delta, steps.of(candidates.back()), tensors);
    CHECK_FALSE(difference(first, last, p.head_dim, p.dtype).has_value());
    CHECK(std::ranges::count(first, 0) < static_cast<std::ptrdiff_t>(first.size()) / 2);
  }
}

TEST_CASE("trial tensors: valid arguments of a forward, and no memory for optional tensors") {
  const ScopedContext current(kInterpreterDevice);
  const OwnedStream stream;
  for (int i = 0; i < 32; ++i) {
    TrialTensors tensors(problem_of(i % 16, i >= 16), KernelPass::forward, {}, stream);
    const Call call = tensors.call();
    const AttentionArgs& args = call.args.as<AttentionArgs>();
    CHECK(violations_of(tensors.problem(), args, call.operands).empty());
    CHECK(args.lse == nullptr);
    CHECK(call.counters == nullptr);
    CHECK(call.scratch == nullptr);
  }
}

TEST_CASE("trial tensors: valid arguments of a backward, all of whose gradients can be written") {
  const ScopedContext current(kInterpreterDevice);
  const OwnedStream stream;
  for (int variants = 0; variants < 16; ++variants) {
    TrialTensors tensors(problem_of(variants, false), KernelPass::dq, {}, stream);
    const Call call = tensors.call();
    const BackwardArgs& args = call.args.as<BackwardArgs>();
    CHECK(violations_of(tensors.problem(), {}, args, call.operands).empty());
    for (const Role role : {Role::dq, Role::dk, Role::dv}) {
      CHECK_FALSE(call.operands[role].is_absent());
      CHECK(tensors[role].size() == size_in_bytes(call.operands[role]));
    }
    CHECK(args.d_lse == nullptr);
    // If two tensors had equal rows, one key would dominate each query.
    CHECK(first_of(tensors, Role::out) != first_of(tensors, Role::d_out));
    CHECK(first_of(tensors, Role::q) != first_of(tensors, Role::k));
    std::vector<float> lse(2 * 4 * 40);
    tensors[Role::lse].download(lse.data(), lse.size() * sizeof(float));
    for (const float value : lse) CHECK((value > 0 && value < std::log(60.0f) + 1));
  }
}

TEST_CASE("trial tensors: a workspace is zero, with counters before scratch") {
  const ScopedContext current(kInterpreterDevice);
  const OwnedStream stream;
  TrialTensors tensors(problem_of(0, false), KernelPass::dk_dv, {}, stream);
  CHECK(tensors.workspace_bytes() == 0);
  tensors.make_workspace(512);
  CHECK(tensors.workspace_bytes() == 512);
  const Call call = tensors.call({.counter_bytes = 256, .scratch_bytes = 256});
  REQUIRE(call.counters == tensors[Role::workspace].data());
  CHECK(call.scratch == call.counters + 256);
  for (int i = 0; i < 512; ++i) REQUIRE(call.counters[i] == std::byte{0});
}

TEST_CASE("trial tensors: a backward is shrunk until it fits with its gradients") {
  const ScopedContext current(kInterpreterDevice);
  const OwnedStream stream;
  PlannedProblem large = problem_of(0, false);
  large.batch = 64;
  const TrialLimits limits{.bytes = 1 << 20};
  const auto bytes_of = [&](KernelPass pass) {
    TrialTensors tensors(large, pass, limits, stream);
    std::size_t bytes = 0;
    for (const Operand& operand : tensors.call().operands) {
      if (operand.strided && !operand.is_absent()) bytes += size_in_bytes(operand);
    }
    return bytes;
  };
  CHECK(bytes_of(KernelPass::forward) <= 1 << 20);
  CHECK(bytes_of(KernelPass::dq) <= 1 << 20);
}
