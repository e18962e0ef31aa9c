// How the config of each backward pass is chosen: each pass has its own records and searches.
#include <api/precompile.h>
#include <api/settings.h>
#include <autotune/candidates.h>
#include <autotune/config_choice.h>
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <fa2/backward.h>
#include <fa2/errors.h>
#include <generator/kernel_source.h>
#include <runtime/device.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/captured_log.h>
#include <tests/support/fake_compiler.h>
#include <tests/support/temporary_directory.h>
#include <tests/support/tuning_record.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr Gradients kBitwise{.determinism = Determinism::bitwise};

KernelConfig guess(KernelPass pass) {
  return heuristic_choices(some_problem(), some_gpu().arch, pass).at(0).config;
}

/// Returns a valid config that the heuristic does not choose.
KernelConfig another(KernelPass pass) {
  return search_candidates(some_problem(), some_gpu().arch, TuneScope::likely, pass).at(1);
}

TuningRecord record(const std::string& device, const PlannedProblem& problem, KernelPass pass) {
  return record_of({some_gpu().arch, device, 108}, bucket_of(problem, pass), another(pass));
}

/// Returns a search that finds another(pass), 20 % faster.
Search finding(KernelPass pass, int& searches) {
  return [pass, &searches](const PlannedProblem&) {
    ++searches;
    TuneReport report;
    report.best = another(pass);
    report.best_us = 80;
    report.heuristic_us = 100;
    report.candidates = {{another(pass), 80, 15, ""}, {guess(pass), 100, 15, ""}};
    return report;
  };
}

/// Returns the passes for which the heuristic has several choices.
std::vector<KernelPass> passes() {
  std::vector<KernelPass> all;
  for (const KernelPass pass : kBackwardPasses) {
    if (heuristic_choices(some_problem(), some_gpu().arch, pass).size() > 1) all.push_back(pass);
  }
  return all;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a pass uses its own records: exact, nearest, another device, heuristic") {
  ChoiceSettings settings;
  settings.tune = TuneMode::stored;
  PlannedProblem longer = some_problem();
  longer.seqlen_k *= 2;
  REQUIRE(passes().size() >= 4);
  for (const KernelPass pass : passes()) {
    CAPTURE(std::string(word_of(pass)));
    TuningStore store("");
    ConfigChooser chooser(settings, store);
    const auto choice = [&] { return chooser.choose(some_problem(), some_gpu(), {}, pass); };
    store.add(record("Some GPU", some_problem(), pass == KernelPass::dq ? KernelPass::dk : KernelPass::dq));
    CHECK(choice().origin == ConfigOrigin::heuristic);
    CHECK(choice().config == guess(pass));
    CHECK(has(choice().reason, "no tuning record"));
    store.add(record("Other GPU", some_problem(), pass));
    CHECK(choice().origin == ConfigOrigin::tuned_other_device);
    CHECK(choice().config == another(pass));
    store.add(record("Some GPU", longer, pass));
    CHECK(choice().origin == ConfigOrigin::tuned_nearest);
    CHECK(has(choice().reason, std::string(" ") + std::string(word_of(pass)) + " group ~1 "));
    store.add(record("Some GPU", some_problem(), pass));
    CHECK(choice().origin == ConfigOrigin::tuned_exact);
    CHECK(chooser.choose(some_problem(), some_gpu()).origin == ConfigOrigin::heuristic);  // the forward

    settings.tune = TuneMode::off;
    CHECK(choice().config == guess(pass));
    settings.tune = TuneMode::stored;
  }
}

TEST_CASE("with batch_invariant no record is used") {
  const ChoiceSettings settings;
  TuningStore store("");
  const ConfigChooser chooser(settings, store);
  for (const KernelPass pass : passes()) {
    store.add(record("Some GPU", some_problem(), pass));
    const ConfigChoice choice = chooser.fixed(some_problem(), some_gpu(), pass);
    CHECK(choice.origin == ConfigOrigin::heuristic);
    CHECK(choice.config == guess(pass));
    CHECK(has(choice.reason, "bitwise gradients follow no measurement"));
    PlannedProblem other = some_problem();
    other.batch = 77, other.heads_q = other.heads_kv = 3, other.seqlen_q = 20, other.seqlen_k = 50'000;
    CHECK(chooser.fixed(other.normalized(), some_gpu(), pass).config == choice.config);
  }
  const ChoiceSettings pinning{.pinned = another(KernelPass::dq), .pinned_by = "FA2_CONFIG"};
  const ConfigChooser pinned(pinning, store);
  CHECK(pinned.fixed(some_problem(), some_gpu(), KernelPass::dq).config == another(KernelPass::dq));
}

TEST_CASE("a pass is searched once per bucket, forward and backward separately") {
  const ChoiceSettings settings{.tune = TuneMode::now};
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  for (const KernelPass pass : passes()) {
    int searches = 0;
    const ConfigChoice first = chooser.choose(some_problem(), some_gpu(), finding(pass, searches), pass);
    CHECK(first.origin == ConfigOrigin::tuned_now);
    CHECK(first.config == another(pass));
    CHECK(chooser.choose(some_problem(), some_gpu(), finding(pass, searches), pass).origin ==
          ConfigOrigin::tuned_exact);
    CHECK(searches == 1);
    CHECK(store.records().back().bucket == bucket_of(some_problem(), pass));
  }
  CHECK(store.records().size() == passes().size());

  int searches = 0;  // delta's kernel has only one config
  const ConfigChoice delta =
      chooser.choose(some_problem(), some_gpu(), finding(KernelPass::dq, searches), KernelPass::delta);
  CHECK(searches == 0);
  CHECK(delta.config == guess(KernelPass::delta));
  const TuneReport report =
      chooser.tune(some_problem(), some_gpu(), finding(KernelPass::dq, searches), KernelPass::dq);
  CHECK(searches == 1);
  CHECK(report.bucket == to_string(bucket_of(some_problem(), KernelPass::dq)));
}

TEST_CASE("a failed search of a pass is not repeated for that pass, but others are searched") {
  const ChoiceSettings settings{.tune = TuneMode::now};
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  const CapturedLog log;
  int searches = 0;
  const Search fails = [&](const PlannedProblem&) -> TuneReport {
    ++searches;
    throw CudaError("out of memory", 2);
  };
  for (int i = 0; i < 2; ++i) {
    for (const KernelPass pass : passes()) {
      const ConfigChoice choice = chooser.choose(some_problem(), some_gpu(), fails, pass);
      CHECK(choice.origin == ConfigOrigin::heuristic);
      CHECK(choice.config == guess(pass));
      CHECK(has(choice.reason, "not measured: out of memory"));
    }
  }
  CHECK(searches == static_cast<int>(passes().size()));
  CHECK(log.lines() == passes().size());
  CHECK(store.records().empty());

  ChoiceSettings no_jit{.tune = TuneMode::now};
  no_jit.jit = JitMode::off;
  ConfigChooser deployed(no_jit, store);
  const ConfigChoice choice = deployed.choose(some_problem(), some_gpu(), fails, KernelPass::dq);
  CHECK(has(choice.reason, "FA2_JIT=off forbids compiling candidates"));
  CHECK(searches == static_cast<int>(passes().size()));
}

TEST_CASE("every choice of a pass: from its records and from the heuristic") {
  const ChoiceSettings settings;
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  store.add(record("Some GPU", some_problem(), KernelPass::dq));
  store.add(record("Some GPU", some_problem(), KernelPass::dk_dv));
  const auto every = chooser.every_choice(some_problem(), some_gpu(), KernelPass::dq);
  REQUIRE(every.size() == 2);
  CHECK(every[0].choice.config == another(KernelPass::dq));
  CHECK(every[0].choice.record.has_value());
  CHECK(every[1].choice.config == guess(KernelPass::dq));
  for (const PossibleChoice& possible : chooser.every_choice(some_problem(), some_gpu()))
    CHECK(pass_of(possible.choice.config) == KernelPass::forward);
}

TEST_CASE("a pack holds the kernels and records of passes, and serves where nothing may be compiled") {
  const TemporaryDirectory dir;
  const AttentionProblem problem = some_problem();
  const ChoiceSettings settings;
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  store.add(record("Some GPU", some_problem(), KernelPass::dq));
  PrecompileOptions options;
  options.backward = true;
  const KernelRequests requests = kernel_requests({problem}, {"sm_80"}, options, chooser);
  {
    KernelCache cache(std::make_shared<FakeCompiler>(), {},
                      std::make_shared<DiskCache>(dir / "pack", kReadWrite), JitMode::on);
    for (const PrecompiledKernel& row : make_kernels(requests.kernels, cache, 2, nullptr))
      CHECK(row.error.empty());
    TuningStore exported(dir / "pack" / kTuningFile);
    export_records(requests.records, exported);
  }

  ContextOptions deployed;
  deployed.cache_dir = (dir / "own").string();
  deployed.read_only_caches = {(dir / "pack").string()};
  deployed.jit = JitMode::off;
  Context context(deployed);
  const CapturedLog log;
  const auto explanation = context.explain_backward(problem, "sm_80", {.dv = false});
  REQUIRE(explanation.kernels.size() == 3);
  for (const KernelReport& kernel : explanation.kernels) {
    CHECK(kernel.origin != KernelOrigin::compiled);
    const bool is_dq = pass_of(kernel.config) == KernelPass::dq;
    CHECK(kernel.config == (is_dq ? another(KernelPass::dq) : guess(pass_of(kernel.config))));
    CHECK(kernel.config_origin == (is_dq ? ConfigOrigin::tuned_other_device : ConfigOrigin::heuristic));
    CHECK(has(kernel.config_reason, is_dq ? "another GPU, Some GPU: 90.0 us" : "no tuning record"));
  }
  CHECK(log.lines() == 0);
}

TEST_CASE("without its kernel a pass runs the most similar cached one") {
  const TemporaryDirectory dir;
  const KernelConfig cached = another(KernelPass::dk_dv);
  {
    KernelCache cache(std::make_shared<FakeCompiler>(), {},
                      std::make_shared<DiskCache>(dir / "own", kReadWrite), JitMode::on);
    for (const KernelConfig& config : {guess(KernelPass::delta), guess(KernelPass::dq), cached})
      cache.get(render({traits_of(some_problem()), config, some_gpu().arch}));
  }
  ContextOptions options;
  options.cache_dir = (dir / "own").string();
  options.jit = JitMode::off;
  Context context(options);
  const CapturedLog log;
  const auto kernels = context.explain_backward(some_problem(), "sm_80", kBitwise).kernels;
  REQUIRE(kernels.size() == 3);
  CHECK(kernels[2].config == cached);
  CHECK(kernels[2].config_reason.find("; instead of " + to_string(guess(KernelPass::dk_dv))) !=
        std::string::npos);
  CHECK(log.lines() == 1);
}

TEST_CASE(
    "if the fused kernel is not available, each gradient has its own kernel, unless the fused one is "
    "pinned") {
  const TemporaryDirectory dir;
  const Arch& hopper = *find_arch("sm_90a");
  {
    KernelCache cache(std::make_shared<FakeCompiler>(), {},
                      std::make_shared<DiskCache>(dir / "own", kReadWrite), JitMode::on);
    for (const KernelPass pass : {KernelPass::delta, KernelPass::dq, KernelPass::dk_dv}) {
      const KernelConfig config = heuristic_choices(some_problem(), hopper, pass).at(0).config;
      cache.get(render({traits_of(some_problem()), config, hopper}));
    }
  }
  ContextOptions options;
  options.cache_dir = (dir / "own").string();
  options.jit = JitMode::off;
  options.tune = TuneMode::off;
  Context context(options);
  const CapturedLog log;
  const Explanation explanation = context.explain_backward(some_problem(), "sm_90a", {});
  std::vector<KernelPass> passes;
  for (const KernelReport& kernel : explanation.kernels) passes.push_back(pass_of(kernel.config));
  CHECK(passes == std::vector{KernelPass::delta, KernelPass::dq, KernelPass::dk_dv});
  CHECK(has(explanation.notes, "separate dQ and dK/dV kernels run instead of the fused one: "));
  CHECK(log.has("instead of the fused one"));

  options.config = heuristic_choices(some_problem(), hopper, KernelPass::dq_dk_dv).at(0).config;
  Context pinned(options);
  CHECK_THROWS_AS(pinned.explain_backward(some_problem(), "sm_90a", {}), Unavailable);
}

TEST_CASE("tuning and explaining a backward say what is not possible") {
  Context context;
  CHECK_THROWS_WITH_AS(context.tune_backward(some_problem(), kInterpreterDevice, {}),
                       doctest::Contains("there is no GPU to measure on"), Unavailable);
  AttentionProblem p = some_problem();
  p.seqlen_k = 0;
  CHECK_THROWS_WITH_AS(context.tune_backward(p, kInterpreterDevice, {}),
                       doctest::Contains("seqlen_k = 0, must be at least 1"), InvalidRequest);
  p.seqlen_q = 0;
  CHECK_THROWS_WITH_AS(context.tune_backward(p, kInterpreterDevice, {}),
                       doctest::Contains("batch * seqlen_q = 0"), InvalidRequest);
  p.head_dim = 7;
  try {
    context.explain_backward(p, "sm_1", {});
    FAIL("accepted");
  } catch (const InvalidRequest& error) {
    CHECK(has(error.what(), "head_dim = 7"));
    CHECK(has(error.what(), "arch = \"sm_1\""));
  }
}
