// The files that a Context on a GPU keeps: damaged kernels, FA2_JIT=off, tuning records.
#include <api/settings.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>
#include <generator/kernel_kind.h>
#include <runtime/device.h>
#include <runtime/disk_cache.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "../support/cache_fixtures.h"
#include "../support/captured_log.h"
#include "../support/gpu_attention.h"
#include "../support/gpu_backward.h"
#include "../support/temporary_directory.h"

using namespace fa2;
using namespace fa2::test;

namespace {

AttentionProblem small_problem() {
  return grouped_problem(DType::f16, MaskKind::none, 64, 97, 130);
}

KernelOrigin origin_of(Context& context, const AttentionProblem& problem) {
  return context.plan(problem).explain().kernels.at(0).origin;
}

}  // namespace

TEST_CASE("a damaged kernel file is recompiled and replaced") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  const auto file = [&] {
    Context context(untuned(cache.path()));
    return std::filesystem::path(context.plan(small_problem()).explain().kernels.at(0).path);
  }();
  const std::string good = read_text(file);
  REQUIRE(good.size() > 1000);
  std::string flipped = good;
  flipped[good.size() * 3 / 4] ^= 1;
  const CapturedLog expected_warnings;
  for (const std::string& damaged : {good.substr(0, good.size() / 2), flipped, std::string()}) {
    write_text(file, damaged);
    Context context(untuned(cache.path()));
    run_and_expect_contract(context, GuardedCall(small_problem()));
    CHECK(origin_of(context, small_problem()) == KernelOrigin::compiled);
    Context next(untuned(cache.path()));
    CHECK(origin_of(next, small_problem()) == KernelOrigin::disk_cache);
  }
  CHECK(expected_warnings.has(file.native()));
}

TEST_CASE("without a JIT only cached kernels run") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  ContextOptions options = untuned(cache.path());
  options.jit = JitMode::off;
  GuardedCall call(small_problem());
  {
    Context context(options);
    CHECK_THROWS_AS(context.attention(call.problem, call.args), Unavailable);
    CHECK(call.is_untouched());
    Context compiling(untuned(cache.path()));
    compiling.plan(small_problem());
    run_and_expect_contract(context, call);  // the same context, after the kernel was cached
  }
  Context context(options);
  call.upload();
  run_and_expect_contract(context, call);
  CHECK(origin_of(context, small_problem()) == KernelOrigin::disk_cache);
}

TEST_CASE("after a prompt, single queries find their kernel without a compiler") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  AttentionProblem decoding = small_problem();
  decoding.seqlen_q = 1;
  ContextOptions options = untuned(cache.path());
  options.jit = JitMode::on;
  Context context(options);
  context.plan(small_problem());
  bool is_there = false;
  for (int tenths = 0; tenths < 600 && !is_there; ++tenths) {
    try {
      is_there = Context(serving(cache.path())).plan(decoding).explain().kernels.at(0).config_origin ==
                 ConfigOrigin::heuristic;
    } catch (const Unavailable&) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  CHECK(is_there);
}

TEST_CASE("tune() records the config that it finds, and the next context uses it") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  const AttentionProblem problem = {
      .head_dim = 64, .mask = MaskKind::causal_bottom_right, .heads_q = 4, .seqlen_q = 500, .seqlen_k = 500};
  ContextOptions options = untuned(cache.path());
  options.tune_budget_ms = 20'000;  // compiling the first candidates alone takes seconds on a busy machine
  TuneReport report;
  {
    Context context(options);
    report = context.tune(problem);
  }
  CHECK(report.best_us > 0);
  CHECK(report.candidates.size() > 1);
  for (const TuneCandidate& candidate : report.candidates)
    CHECK_MESSAGE(candidate.dropped.find("wrong output") == std::string::npos, candidate.dropped);
  CHECK(std::filesystem::file_size(cache.path() / kTuningFile) > 0);

  options.tune = TuneMode::stored;
  Context context(options);
  const KernelReport kernel = context.plan(problem).explain().kernels.at(0);
  CHECK(kernel.config_origin == ConfigOrigin::tuned_exact);
  CHECK(kernel.config == report.best);
  CHECK(kernel.origin == KernelOrigin::disk_cache);
  run_and_expect_contract(context, GuardedCall(problem));
}

TEST_CASE("tune() finds no wrong output where some candidates make a map and others split keys") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  AttentionProblem problem{
      .head_dim = 64, .batch = 4, .heads_q = 32, .heads_kv = 8, .seqlen_q = 256, .seqlen_k = 2048};
  problem.score_text = make_score_text({.mask = "return at.key >= 0;"});
  ContextOptions options = untuned(cache.path());
  options.tune_budget_ms = 20'000;
  const TuneReport report = Context(options).tune(problem);
  bool has_map = false, has_splits = false;
  for (const TuneCandidate& candidate : report.candidates) {
    CHECK_MESSAGE(candidate.dropped.find("wrong output") == std::string::npos, candidate.dropped);
    has_map |= candidate.config.key_map != 0 && candidate.samples > 0;
    has_splits |= splits_keys(candidate.config) && candidate.samples > 0;
  }
  CHECK(has_map);
  CHECK(has_splits);
}

TEST_CASE("tune_backward() records each pass's config, and the next context uses them") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  AttentionProblem problem = small_problem();
  problem.mask = MaskKind::causal_bottom_right;
  problem.softcap = problem.sinks = true;
  problem.window_left = 50;
  ContextOptions options = untuned(cache.path());
  options.tune_budget_ms = 20'000;  // compiling the first candidates alone takes seconds
  std::vector<TuneReport> reports;
  {
    Context context(options);
    reports = context.tune_backward(problem, 0, {});
  }
  CHECK_FALSE(reports.empty());  // if possible, one kernel computes dQ, dK and dV
  for (const TuneReport& report : reports) {
    CHECK(report.best_us > 0);
    CHECK(report.candidates.size() > 1);
    for (const TuneCandidate& candidate : report.candidates)
      CHECK_MESSAGE(candidate.dropped.find("wrong output") == std::string::npos, candidate.dropped);
  }

  options.tune = TuneMode::stored;
  Context context(options);
  const Explanation explanation = context.backward_plan(problem, 0, {}).explain();
  std::size_t followed = 0;
  for (const KernelReport& kernel : explanation.kernels) {
    if (kernel.config_origin != ConfigOrigin::tuned_exact) continue;
    CHECK(kernel.config == reports.at(followed++).best);
    CHECK(kernel.origin == KernelOrigin::disk_cache);
  }
  CHECK(followed == reports.size());
  run_and_expect_gradients(context, GuardedBackward(problem));
}

TEST_CASE("a first backward without records searches each of its kernels once") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  ContextOptions options = untuned(cache.path());
  options.tune = TuneMode::now;
  options.tune_budget_ms = 6000;  // enough to compile a few kernels
  Context context(options);
  const auto origins = [&](const AttentionProblem& problem) {
    std::vector<ConfigOrigin> all;
    for (const KernelReport& kernel : context.backward_plan(problem, 0, {}).explain().kernels)
      all.push_back(kernel.config_origin);
    return all;
  };
  AttentionProblem longer = small_problem();
  longer.seqlen_q += 1;  // in the same bucket
  const auto first = origins(small_problem()), second = origins(longer);
  CHECK(std::ranges::count(first, ConfigOrigin::tuned_now) >= 1);
  CHECK(std::ranges::count(second, ConfigOrigin::tuned_exact) ==
        std::ranges::count(first, ConfigOrigin::tuned_now));
  run_and_expect_gradients(context, GuardedBackward(small_problem()));
}

namespace {

/// Returns a problem that no shipped record fits exactly.
AttentionProblem unmeasured_problem() {
  return {.head_dim = 72,
          .mask = MaskKind::causal_top_left,
          .heads_q = 3,
          .heads_kv = 3,
          .seqlen_q = 300,
          .seqlen_k = 300};
}

ContextOptions learning(const TemporaryDirectory& cache, TuneMode mode) {
  ContextOptions options = untuned(cache.path());
  options.tune = mode;
  return options;
}

/// Calls until `is_done`, for up to two minutes. Returns whether it is.
template <class Predicate>
bool call_until(Context& context, GuardedCall& call, const Predicate& is_done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!is_done() && std::chrono::steady_clock::now() < end) {
    context.attention(call.problem, call.args);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return is_done();
}

}  // namespace

TEST_CASE("learn: a problem keeps its config, and what the process used is measured meanwhile for the next") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  ContextOptions options = learning(cache, TuneMode::learn);
  GuardedCall call(unmeasured_problem());
  const auto choice_of = [&](Context& context) { return context.plan(call.problem).explain().kernels.at(0); };
  {
    Context context(options);
    const KernelReport first = choice_of(context);
    CHECK(first.config_origin != ConfigOrigin::tuned_exact);
    CHECK(first.config_origin != ConfigOrigin::tuned_now);
    CHECK(call_until(context, call, [&] { return std::filesystem::exists(cache.path() / kTuningFile); }));
    CHECK(choice_of(context).config == first.config);
    CHECK(choice_of(context).config_origin == first.config_origin);
    run_and_expect_contract(context, call);
  }
  options.tune = TuneMode::stored;
  Context next(options);
  CHECK(choice_of(next).config_origin == ConfigOrigin::tuned_exact);
  call.upload();
  run_and_expect_contract(next, call);
}

TEST_CASE("adaptive: the process follows what it has measured") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  ContextOptions options = learning(cache, TuneMode::adaptive);
  Context context(options);
  GuardedCall call(unmeasured_problem());
  CHECK(call_until(context, call, [&] {
    return context.plan(call.problem).explain().kernels.at(0).config_origin == ConfigOrigin::tuned_exact;
  }));
  run_and_expect_contract(context, call);
}

TEST_CASE("learn: a context that is destroyed while it measures waits for no more than the step under way") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const TemporaryDirectory cache;
  ContextOptions options = learning(cache, TuneMode::learn);
  {
    Context context(options);
    GuardedCall call(unmeasured_problem());
    const DiskCache kernels(cache.path(), DiskCache::Access::read_only);
    CHECK(call_until(context, call, [&] { return kernels.entries().size() > 1; }));  // candidates compile
  }
  CHECK_FALSE(std::filesystem::exists(cache.path() / kTuningFile));
}
