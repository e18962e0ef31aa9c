// Measures the host time of a memoised attention() call, of a plan's run() and of the bare launch that both
// end in.
#include <api/plan.h>
#include <bench/bench_main.h>
#include <fa2/attention.h>
#include <fmt/format.h>
#include <generator/config_space.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <tools/launch_timer.h>
#include <tools/problem_options.h>
#include <tools/table.h>
#include <tools/verb.h>

#include <chrono>
#include <string>
#include <vector>

using namespace fa2;
using namespace fa2::tools;

namespace {

/// One config per forward kernel, with the schedule that costs the host most.
constexpr const char* kConfigs[] = {
    "kernel=forward_sm80,tile_m=128,tile_n=64,warps=4,stages=2",
    "kernel=forward_sm90,tile_m=64,tile_n=64,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=2"};

struct Options {
  int rounds = 41;
  GpuOption device;
  bool json = false;
};

/// Host times; nanoseconds per call.
struct Times {
  KernelConfig config;
  double bare = 0, run = 0, attention = 0;
};

/// Returns a problem so short that the GPU waits for the host.
AttentionProblem short_problem() {
  AttentionProblem problem;
  problem.head_dim = 64;
  problem.heads_q = 2;
  problem.seqlen_q = problem.seqlen_k = 128;
  return problem.normalized();
}

/// Returns the median over rounds; nanoseconds per call. The queue is drained between rounds, so that no call
/// waits for room.
template <class Call>
double nanoseconds(const OwnedStream& stream, int rounds, const Call& call) {
  std::vector<double> samples;
  for (int round = 0; round < rounds; ++round) {
    constexpr int kCalls = 200;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    stream.synchronize();
    samples.push_back(took.count() / kCalls);
  }
  return spread_of(samples).median;
}

/// Measures launches whose parameters already exist.
double bare_launch(const Plan& plan, const AttentionArgs& args, const OwnedStream& stream, int rounds) {
  const Step& step = plan.steps.front();
  ParamsBuffer params;
  step.fill(step, {plan.problem, args, operands_of(plan.problem, args)}, params);
  if (step.context_counters) params.put(step.counters.param, step.context_counters->take({}, nullptr));
  return nanoseconds(stream, rounds, [&] {
    step.kernel->launch(step.shape, params.data(), params.size(), stream.get(), nullptr);
  });
}

/// Measures on the current device.
Times measure(const AttentionProblem& problem, const KernelConfig& config, const AttentionArgs& args,
              int rounds) {
  ContextOptions options;
  options.tune = TuneMode::off;
  options.config = config;
  Context context(options);
  const AttentionPlan plan = context.plan(problem);
  const OwnedStream stream;
  Times times{config};
  times.bare = bare_launch(plan.impl(), args, stream, rounds);
  times.run = nanoseconds(stream, rounds, [&] { plan.run(args, stream.get()); });
  times.attention = nanoseconds(stream, rounds, [&] { context.attention(problem, args, stream.get()); });
  return times;
}

void print_document(const std::vector<Times>& all, const Options& options, const Device& gpu) {
  Json json = {{"device", gpu.name}, {"driver", driver_version()}, {"version", version()}};
  json["rounds"] = options.rounds;
  for (const Times& t : all) {
    Json row = {{"kernel", to_string(t.config.kernel)}, {"config", to_string(t.config)}};
    row.update({{"bare_ns", t.bare}, {"run_ns", t.run}, {"attention_ns", t.attention}});
    json["kernels"].push_back(row);
  }
  print_json(json);
}

void print_table(const std::vector<Times>& all) {
  Table table({{"kernel"},
               number("bare launch ns"),
               number("plan.run ns"),
               number("over bare"),
               number("attention ns"),
               number("over bare")});
  const auto text = [](double ns) { return fmt::format("{:.0f}", ns); };
  for (const Times& t : all) {
    table.add({std::string(to_string(t.config.kernel)), text(t.bare), text(t.run), text(t.run - t.bare),
               text(t.attention), text(t.attention - t.bare)});
  }
  print(table);
}

int run(const Options& options) {
  const Device& gpu = options.device.gpu();
  const ScopedContext current(gpu.ordinal);
  const AttentionProblem problem = short_problem();
  DeviceBuffer q(128 * 2 * 64 * 2), k(q.size()), v(q.size()), o(q.size());
  for (DeviceBuffer* buffer : {&q, &k, &v}) buffer->fill(0);
  const AttentionArgs args = bshd_args(problem, q.data(), k.data(), v.data(), o.data());
  std::vector<Times> all;
  for (const char* text : kConfigs) {
    const KernelConfig config = parse_config(text);
    if (const auto reason = why_rejected({problem, {}}, config, gpu.arch)) {
      fmt::print(stderr, "fa2_host_overhead: left out: {}\n", *reason);
      continue;
    }
    all.push_back(measure(problem, config, args, options.rounds));
  }
  options.json ? print_document(all, options, gpu) : print_table(all);
  return kOk;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures the host time of a call whose plan is made, beside that of the bare launch.",
               "fa2_host_overhead");
  app.footer(
      "A problem of two small tiles, once with each forward kernel that the GPU runs. Times are medians "
      "over\n"
      "rounds of 200 calls.\n\n"
      "Example:\n  fa2_host_overhead --rounds 101");
  Options options;
  app.add_option("--rounds", options.rounds, "Rounds of every kind of call")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  options.device.add_to(app);
  app.add_flag("--json", options.json, "Print one JSON document");
  return bench::run_bench(app, argc, argv, [&] { return run(options); });
}
