// What the steps of a plan may do with operands, and which of each other's writes they may read.
#include <api/plan.h>
#include <doctest/doctest.h>
#include <interpreter/interpreted_kernel.h>
#include <runtime/device.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broken_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr int kRows = 32;

const AttentionProblem kProblem =
    AttentionProblem{.head_dim = 8, .seqlen_q = kRows, .seqlen_k = 1}.normalized();

struct Params {
  float* lse;
  void* out;
  int rows;  ///< rows that the first step writes
};

/// A kernel of one warp with a row per lane, and the operand uses that it declares.
struct Part {
  std::string body;
  std::vector<OperandUse> uses;
  bool begins_early = false;
};

const Part kWritesLse = {"if (thread_index() < p.rows) st_global_f32(p.lse + thread_index(), 1.0f);",
                         {{Role::lse, Access::write}}};
const std::string kReadLse =
    "const Vector16 row{{ld_global_f32(p.lse + thread_index()) == 1.0f ? 1u : 0u}};\n"
    "st_global_v4(p.out + 16 * thread_index(), row);";
const std::string kAddToLse = "red_add_global_f32(p.lse + thread_index(), 1.0f);";

KernelBinary compiled(const Part& part) {
  return compile_for_interpreter({part.body, "float* lse; unsigned char* out; int rows;"});
}

/// softmax_scale carries `rows`.
void fill(const Step&, const Call& call, ParamsBuffer& params) {
  const AttentionArgs& args = call.args.as<AttentionArgs>();
  params.emplace(Params{args.lse, args.out, static_cast<int>(*args.softmax_scale)});
}

/// A plan of two steps, and memory for it.
class TwoSteps {
 public:
  TwoSteps(const Part& first, const Part& second)
      : parts_{first, second}, binaries_{compiled(first), compiled(second)} {
    choose({});
  }

  void choose(const interpreter::Options& options) {
    auto plan = std::make_shared<Plan>();
    plan->problem = PlannedProblem(kProblem, {});
    plan->device = kInterpreterDevice;
    for (std::size_t i = 0; i < 2; ++i) {
      Step step;
      step.kernel = interpreter::load_interpreted_kernel(binaries_[i], options);
      step.shape = {.grid = 1, .begins_early = parts_[i].begins_early};
      step.uses = parts_[i].uses;
      step.fill = fill;
      plan->add(std::move(step));
    }
    plan_ = AttentionPlan(std::move(plan));
  }

  /// Returns the message that a run fails with; empty if it succeeds.
  std::string fault_of(int rows) const {
    AttentionArgs args = bshd_args(kProblem, inputs_.data(), inputs_.data(), inputs_.data(), o_.data(),
                                   static_cast<float*>(lse_.data()));
    args.softmax_scale = static_cast<float>(rows);
    try {
      plan_->run(args);
    } catch (const KernelFault& fault) {
      return fault.what();
    }
    return {};
  }

 private:
  ScopedContext context_{kInterpreterDevice};
  DeviceBuffer inputs_{16 * kRows}, o_{16 * kRows}, lse_{4 * kRows};
  std::vector<Part> parts_;
  std::vector<KernelBinary> binaries_;
  std::optional<AttentionPlan> plan_;
};

/// CHECKs that a run fails if the first step writes `broken` rows, and succeeds if it writes all.
void expect_stopped(const Part& second, int broken, const std::vector<std::string>& words) {
  TwoSteps steps(kWritesLse, second);
  for (const interpreter::Options& options : checked_options()) {
    steps.choose(options);
    const std::string fault = steps.fault_of(broken);
    for (const std::string& word : words)
      CHECK_MESSAGE(fault.find(word) != std::string::npos, "\"", word, "\" is not in: ", fault);
    CHECK(steps.fault_of(kRows) == "");
  }
}

bool says(const std::string& fault, const char* part) {
  return fault.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a step may read only what the step before has written") {
  expect_stopped({kReadLse, {{Role::lse, Access::read}, {Role::out, Access::write}}}, kRows - 1,
                 {"load of 4 bytes at global address", "in lse, which nothing has written",
                  "kernel small kernel, block 0, thread 31"});
}

TEST_CASE("a step may add only to what the step before has written") {
  expect_stopped({kAddToLse, {{Role::lse, Access::read_write}}}, 5,
                 {"atomic of 4 bytes at global address", "in lse, which nothing has initialised",
                  "kernel small kernel, block 0, thread 5"});
}

TEST_CASE("a step that begins early waits before it touches what the step before has written") {
  const std::string wait = "if (thread_index() != 5) wait_for_launches_before();\n";
  const Part reads{kReadLse, {{Role::lse, Access::read}, {Role::out, Access::write}}, true};
  const Part adds{kAddToLse, {{Role::lse, Access::read_write}}, true};
  const Part overwrites{"st_global_f32(p.lse + thread_index(), 2.0f);", {{Role::lse, Access::write}}, true};
  for (const Part& part : {reads, adds, overwrites}) {
    const auto fault_of = [&](const std::string& before, bool begins_early) {
      return TwoSteps(kWritesLse, {before + part.body, part.uses, begins_early}).fault_of(kRows);
    };
    CHECK(says(fault_of("", true),
               "in lse, which an earlier launch has written: this thread has not waited for it"));
    CHECK(says(fault_of(wait, true), "kernel small kernel, block 0, thread 5"));
    CHECK(fault_of("wait_for_launches_before();\n", true) == "");
    CHECK(fault_of("", false) == "");
  }
}

TEST_CASE("a step that begins early may touch what no step has written before it waits") {
  const Part writes_out{
      "st_global_v4(p.out + 16 * thread_index(), Vector16{});\nwait_for_launches_before();\n"
      "ld_global_f32(p.lse + thread_index());",
      {{Role::lse, Access::read}, {Role::out, Access::write}},
      true};
  CHECK(TwoSteps(kWritesLse, writes_out).fault_of(kRows) == "");
}

TEST_CASE("a first step that begins early waits before it touches anything") {
  const Part reads_nothing{"", {{Role::lse, Access::read}}};
  const auto fault_of = [&](const std::string& before) {
    return TwoSteps({before + kWritesLse.body, kWritesLse.uses, true}, reads_nothing).fault_of(kRows);
  };
  CHECK(says(fault_of(""),
             "in lse, which an earlier launch may have written: this thread has not waited for it"));
  CHECK(says(fault_of("if (thread_index() != 5) wait_for_launches_before();\n"),
             "kernel small kernel, block 0, thread 5"));
  CHECK(fault_of("wait_for_launches_before();\n") == "");
}

TEST_CASE("a run does not see what an earlier run has written") {
  const TwoSteps steps(kWritesLse, {kReadLse, {{Role::lse, Access::read}, {Role::out, Access::write}}});
  for (int i = 0; i < 2; ++i) {
    CHECK(steps.fault_of(kRows) == "");
    CHECK(says(steps.fault_of(0), "in lse, which nothing has written"));
  }
}

TEST_CASE("a step may use only the operands that it declares") {
  const auto fault_of = [](const std::string& body, const std::vector<OperandUse>& uses) {
    return TwoSteps(kWritesLse, {body, uses}).fault_of(kRows);
  };
  CHECK(says(fault_of(kReadLse, {{Role::out, Access::write}}), "outside the buffers of this launch: out at"));
  CHECK(says(fault_of(kReadLse, {{Role::lse, Access::read}, {Role::out, Access::read}}),
             "in out, which this launch may only read"));
  CHECK(says(fault_of(kReadLse, {{Role::lse, Access::write}, {Role::out, Access::write}}),
             "in lse, of which this launch may read only what it has written itself"));
  CHECK(says(fault_of(kAddToLse, {{Role::lse, Access::read}}), "in lse, which this launch may only read"));
}
