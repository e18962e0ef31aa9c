// fa2 tune: measure the configurations of one problem and record the best.
#include <api/context.h>
#include <api/explanation.h>
#include <fmt/format.h>
#include <tools/problem_options.h>
#include <tools/progress.h>
#include <tools/table.h>
#include <tools/verb.h>

#include <memory>
#include <optional>

namespace fa2::tools {
namespace {

struct Options {
  ProblemOptions problem;
  GpuOption device;
  std::optional<std::int64_t> budget_ms;
  bool all = false;
};

TuneReport search(Context& context, const Options& options, bool json) {
  const PlannedProblem problem = options.problem.problem();
  const Device& gpu = options.device.gpu();
  const Progress progress(
      fmt::format("measuring for at most {:.1f} s", context.impl().settings.tune_budget_seconds), 0, json);
  return context.tune(problem, gpu.ordinal, options.all ? TuneScope::all : TuneScope::likely, problem);
}

std::string us_text(double us) {
  return us > 0 ? fmt::format("{:.1f}", us) : "-";
}

/// Reasons may quote whole compiler messages; --json has all of them.
std::string shortened(const std::string& reason) {
  constexpr std::size_t kMost = 80;
  return reason.size() <= kMost ? reason : reason.substr(0, kMost - 3) + "...";
}

void print_report(const TuneReport& report, const std::string& store) {
  Table table({number("us"), number("of chosen"), number("samples"), {"config"}, {"dropped"}});
  for (const TuneCandidate& candidate : report.candidates) {
    table.add({us_text(candidate.median_us),
               candidate.median_us > 0 ? fmt::format("{:.2f}x", candidate.median_us / report.best_us) : "-",
               fmt::format("{}", candidate.samples), to_string(candidate.config),
               shortened(candidate.dropped)});
  }
  print(table);
  fmt::print("\n{}", text(Lines{{"problem", to_string(PlannedProblem(report.problem, report.options))},
                                {"bucket", report.bucket},
                                {"best", to_string(report.best)},
                                {"time", fmt::format("{} us, the heuristic's {} us", us_text(report.best_us),
                                                     us_text(report.heuristic_us))},
                                {"search", fmt::format("{:.1f} s{}", report.seconds,
                                                       report.budget_spent ? ", the whole budget" : "")},
                                {"stored in", store}}));
}

int run(const Options& options, bool json) {
  ContextOptions settings;
  settings.tune_budget_ms = options.budget_ms;
  Context context(settings);
  TuningStore& store = context.impl().records;
  const std::size_t known = store.records().size();
  const TuneReport report = search(context, options, json);
  const bool is_stored = store.records().size() > known;
  const std::string path =
      store.file().empty() ? "memory only: no cache directory is set" : store.file().string();
  const std::string where = is_stored ? path : "nothing: too few candidates were measured to compare";
  if (json) {
    Json document = Json::parse(to_json(report));
    document["stored_in"] = is_stored ? Json(store.file().string()) : Json(nullptr);
    print_json(document);
  } else {
    print_report(report, where);
  }
  return kOk;
}

}  // namespace

Verb add_tune(CLI::App& app) {
  CLI::App* verb =
      add_verb(app, "tune", "Measure the configurations of one problem on a GPU and record the best",
               "fa2 tune --head-dim 128 --causal --window-left 4096 --seqlen 8192 --heads 32 --heads-kv 8");
  const auto options = std::make_shared<Options>();
  options->problem.add_to(*verb);
  options->device.add_to(*verb);
  verb->add_option("--budget-ms", options->budget_ms,
                   "Time to spend, compiling included (default: FA2_TUNE_BUDGET_MS)")
      ->check(CLI::Range(0, 3600 * 1000));
  verb->add_flag("--all", options->all,
                 "Measure every valid configuration, not the 24 likely ones: give it minutes by --budget-ms");
  return {verb, [verb, options] { return run(*options, wants_json(*verb)); }};
}

}  // namespace fa2::tools
