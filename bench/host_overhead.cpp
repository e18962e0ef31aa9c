// Host time of a memoised attention() call beside a plan's run() and the bare launch that both end in.
#include <api/plan.h>
#include <fa2/attention.h>
#include <fmt/format.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace {

/// Median over rounds of nanoseconds per call; the queue is drained between rounds so that no call waits for
/// room.
template <class Call>
double nanoseconds(const fa2::OwnedStream& stream, Call&& call) {
  std::vector<double> rounds;
  for (int round = 0; round < 41; ++round) {
    constexpr int kCalls = 200;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    stream.synchronize();
    rounds.push_back(took.count() / kCalls);
  }
  std::nth_element(rounds.begin(), rounds.begin() + 20, rounds.end());
  return rounds[20];
}

/// With parameters made before.
double bare_launch(const fa2::AttentionPlan::Impl& plan, const fa2::AttentionArgs& args,
                   const fa2::OwnedStream& stream) {
  const auto time = [&](const auto& params) {
    return nanoseconds(stream, [&] {
      plan.kernel->launch(plan.launch.grid, &params, sizeof params, stream.get(), nullptr);
    });
  };
  if (plan.launch.config.mainloop == 80) return time(fa2::params_of(plan.launch, plan.problem, args));
  fa2::AttentionParamsSm90 params = fa2::params_sm90_of(plan.launch, plan.problem, args);
  if (fa2::needs_counter(plan.launch.config)) params.next_tile = plan.launch.counters->take(false);
  return time(params);
}

}  // namespace

int main() {
  if (fa2::device_count() == 0) {
    fmt::print("no GPU: nothing to measure\n");
    return 0;
  }
  const fa2::ScopedContext context(0);
  fa2::AttentionProblem problem;
  problem.head_dim = 64;
  problem.heads_q = 2;
  problem.seqlen_q = problem.seqlen_k = 128;
  fa2::DeviceBuffer q(128 * 2 * 64 * 2), k(q.size()), v(q.size()), o(q.size());
  for (fa2::DeviceBuffer* buffer : {&q, &k, &v}) buffer->fill(0);
  fa2::ContextOptions options;
  options.tune = fa2::TuneMode::off;
  fa2::Context fa2_context(options);
  const fa2::AttentionPlan plan = fa2_context.plan(problem);
  const fa2::AttentionArgs args = fa2::bshd_args(problem, q.data(), k.data(), v.data(), o.data());
  const fa2::OwnedStream stream;
  fa2_context.attention(problem, args, stream.get());
  const double bare = bare_launch(plan.impl(), args, stream);
  const double run = nanoseconds(stream, [&] { plan.run(args, stream.get()); });
  const double attention = nanoseconds(stream, [&] { fa2_context.attention(problem, args, stream.get()); });
  fmt::print("bare launch {:.0f} ns, plan.run {:.0f} ns (+{:.0f}), attention {:.0f} ns (+{:.0f})\n", bare,
             run, run - bare, attention, attention - bare);
}
