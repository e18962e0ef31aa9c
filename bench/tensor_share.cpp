// Measures which share of the tensor cores' cycles attention's operations take, at the clock that the SMs ran
// at.
#include <api/plan.h>
#include <bench/bench_main.h>
#include <bench/clocked_source.h>
#include <fa2/attention.h>
#include <fmt/format.h>
#include <runtime/compiler.h>
#include <runtime/device.h>
#include <tools/bench_inputs.h>
#include <tools/flops.h>
#include <tools/launch_timer.h>
#include <tools/problem_options.h>
#include <tools/table.h>
#include <tools/verb.h>

#include <limits>
#include <memory>
#include <vector>

using namespace fa2;
using namespace fa2::tools;
using fa2::bench::ClockSums;

namespace {

struct Options {
  MatrixOptions matrix;
  int rounds = 9;
  GpuOption device;
  bool json = false;
};

/// Medians over the rounds.
struct Point {
  AttentionProblem problem;
  KernelConfig config;
  double us = 0, clocked_us = 0;  ///< per launch of the plain kernel, and of the clocked one
  double ghz = 0;                 ///< SM clock during the clocked kernel
};

/// Returns the dense fp16 or bf16 operations per SM and clock cycle; NaN if unknown.
double flops_per_cycle(const Arch& arch) {
  return arch.name == "sm_90a" ? 4096 : std::numeric_limits<double>::quiet_NaN();
}

/// Returns the share, from the clocked kernel's own time including launches, because the clock was measured
/// there.
double share_of(const Point& point, const Device& gpu) {
  const double cycles = point.clocked_us * 1e3 * point.ghz;
  return flops_of(point.problem) / (flops_per_cycle(gpu.arch) * gpu.sm_count * cycles);
}

const KernelConfig& config_of(const AttentionPlan& plan) {
  return plan.explain().kernels.front().config;
}

/// Returns `plan` with a clocked copy of its kernel.
AttentionPlan clocked_plan(const AttentionPlan& plan, const Device& gpu, const DeviceBuffer& sums) {
  const KernelConfig& config = config_of(plan);
  const KernelSource source = render({traits_of({plan.problem(), plan.explain().options}), config, gpu.arch});
  const int thread = bench::first_computing_thread(config);
  const KernelBinary binary = make_nvrtc_compiler()->compile(bench::clocked(source, thread, sums.data()));
  auto impl = std::make_shared<Plan>(plan.impl());
  impl->steps.at(0).kernel = load_cuda_kernel(binary, gpu.ordinal);
  return AttentionPlan(std::move(impl));
}

double ghz_of(const DeviceBuffer& buffer) {
  ClockSums sums;
  buffer.download(&sums, sizeof sums);
  if (sums.ns == 0) throw Error(ErrorCode::internal, "the global timer stood still during a burst");
  return static_cast<double>(sums.cycles) / static_cast<double>(sums.ns);
}

/// Times plain and clocked bursts in alternation, so that a drifting clock affects both.
Point measure(const AttentionProblem& problem, Context& context, const Device& gpu, const AttentionArgs& args,
              int rounds) {
  const OwnedStream stream;
  DeviceBuffer sums(sizeof(ClockSums));
  const AttentionPlan plan = context.plan(problem, gpu.ordinal);
  LaunchTimer plain(launch_of(plan, args), stream),
      clocked(launch_of(clocked_plan(plan, gpu, sums), args), stream);
  std::vector<double> us, clocked_us, ghz;
  for (int round = 0; round < rounds; ++round) {
    us.push_back(plain.burst_us());
    sums.fill(0, stream.get());
    clocked_us.push_back(clocked.burst_us());
    ghz.push_back(ghz_of(sums));
  }
  return {problem, config_of(plan), spread_of(us).median, spread_of(clocked_us).median,
          spread_of(ghz).median};
}

void print_document(const std::vector<Point>& points, const Options& options, const Device& gpu) {
  Json json = {{"device", gpu.name}, {"driver", driver_version()}, {"version", version()}};
  json.update({{"flops_per_sm_and_cycle", flops_per_cycle(gpu.arch)}, {"rounds", options.rounds}});
  for (const Point& p : points) {
    Json row = {{"problem", to_string(p.problem)}, {"config", to_string(p.config)}};
    row.update({{"us", p.us}, {"tflops", tflops(p.problem, p.us)}, {"clocked_us", p.clocked_us}});
    row.update({{"sm_ghz", p.ghz}, {"tensor_share", share_of(p, gpu)}});
    json["points"].push_back(row);
  }
  print_json(json);
}

void print_table(const std::vector<Point>& points, const Device& gpu) {
  Table table({{"problem"},
               number("ms"),
               number("TFLOP/s"),
               number("SM GHz"),
               number("tensor share"),
               number("slowdown")});
  for (const Point& p : points) {
    const double share = share_of(p, gpu) * 100;
    table.add({to_string(p.problem), fmt::format("{:.4f}", p.us * 1e-3),
               fmt::format("{:.1f}", tflops(p.problem, p.us)), fmt::format("{:.3f}", p.ghz),
               share > 0 ? fmt::format("{:.1f}%", share) : fmt::format("not known on {}", gpu.arch.name),
               fmt::format("{:.1f}%", (p.clocked_us / p.us - 1) * 100)});
  }
  print(table);
}

/// Measures all problems. An error costs only its point.
int run(const Options& options) {
  const std::vector<AttentionProblem> problems = options.matrix.problems();
  const Device& gpu = options.device.gpu();
  const ScopedContext current(gpu.ordinal);
  Context context;
  const BenchInputs inputs(problems);
  std::vector<Point> points;
  for (const AttentionProblem& p : problems) {
    try {
      points.push_back(measure(p, context, gpu, inputs.args(p), options.rounds));
    } catch (const Error& error) {
      fmt::print(stderr, "fa2_tensor_share: {}: {}\n", to_string(p), error.what());
    }
  }
  options.json ? print_document(points, options, gpu) : print_table(points, gpu);
  return points.size() == problems.size() ? kOk : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures the share of the tensor cores' cycles that attention's operations are.",
               "fa2_tensor_share");
  app.footer(
      "Configurations are chosen as FA2_TUNE and FA2_CONFIG say. Masked operations count half, as in fa2\n"
      "bench: a causal kernel's share is of the useful ones. The share and the clock are those of a kernel\n"
      "that reads clocks at its start and end; slowdown is what that costs.\n\n"
      "Example:\n  fa2_tensor_share --head-dim 64,128 --seqlen 4096,16384 --causal no");
  Options options;
  options.matrix.add_to(app);
  app.add_option("--rounds", options.rounds, "Bursts of every kernel")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  options.device.add_to(app);
  app.add_flag("--json", options.json, "Print one JSON document");
  return bench::run_bench(app, argc, argv, [&] { return run(options); });
}
