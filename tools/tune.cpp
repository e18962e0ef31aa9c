// fa2 tune: measures configurations of one problem or a matrix, and records the best.
#include <api/context.h>
#include <api/explanation.h>
#include <fmt/format.h>
#include <planning/backward.h>
#include <planning/forward.h>
#include <tools/backward_options.h>
#include <tools/output_file.h>
#include <tools/problem_file.h>
#include <tools/problem_options.h>
#include <tools/progress.h>
#include <tools/record_file.h>
#include <tools/table.h>
#include <tools/tune_matrix.h>
#include <tools/tuning_matrix.h>
#include <tools/verb.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

namespace fa2::tools {
namespace {

constexpr const char* kStandard = "standard";

struct Options {
  ProblemOptions problem;
  std::string matrix;   ///< kStandard or a file; empty: one problem
  std::string records;  ///< a file; empty: only the user's own records
  bool dry_run = false;
  GpuOption device;
  std::optional<std::int64_t> budget_ms;
  bool all = false;
  BackwardOptions backward;

  TuneScope scope() const { return all ? TuneScope::all : TuneScope::likely; }
};

/// Searches and their records, one each, unless too few candidates were measured to compare.
struct Tuned {
  std::vector<TuneReport> reports;
  std::vector<TuningRecord> records;

  bool is_complete() const { return records.size() == reports.size(); }
};

Tuned tune(Context& context, const PlannedProblem& problem, const Options& options, bool json) {
  const Device& gpu = options.device.gpu();
  const Progress progress(
      fmt::format("measuring for at most {:.1f} s", context.impl().settings.tune_budget_seconds), 0, json);
  const TuningStore& store = context.impl().records;
  const std::size_t known = store.records().size();
  Tuned tuned;
  if (options.backward.wanted) {
    tuned.reports =
        context.tune_backward(problem, gpu.ordinal, options.backward.gradients, options.scope(), problem);
  } else {
    tuned.reports.push_back(context.tune(problem, gpu.ordinal, options.scope(), problem));
  }
  const std::vector<TuningRecord> records = store.records();
  tuned.records.assign(records.begin() + static_cast<std::ptrdiff_t>(known), records.end());
  return tuned;
}

/// Returns where records go, in words.
std::string place_of_records(Context& context, const Options& options) {
  const auto& own = context.impl().records.file();
  const std::string text = own.empty() ? "memory only: no cache directory is set" : own.string();
  if (options.records.empty()) return text;
  return own.empty() ? options.records : text + ", " + options.records;
}

/// Returns a reason's beginning, because it may quote a compiler's whole message; --json has all of it.
std::string shortened(const std::string& reason) {
  constexpr std::size_t kMost = 80;
  return reason.size() <= kMost ? reason : reason.substr(0, kMost - 3) + "...";
}

void print_report(const TuneReport& report, const std::string& stored_in) {
  Table table({number("us"), number("of chosen"), number("samples"), detail("config"), detail("dropped")});
  for (const TuneCandidate& candidate : report.candidates) {
    table.add({us_text(candidate.median_us),
               candidate.median_us > 0 ? fmt::format("{:.2f}x", candidate.median_us / report.best_us) : "-",
               fmt::format("{}", candidate.samples), to_string(candidate.config),
               shortened(candidate.dropped)});
  }
  print(table);
  fmt::print("\n");
  print(Lines{
      {"problem", to_string(PlannedProblem(report.problem, report.options))},
      {"bucket", report.bucket},
      {"best", to_string(report.best)},
      {"time",
       fmt::format("{} us, the heuristic's {} us", us_text(report.best_us), us_text(report.heuristic_us))},
      {"search", fmt::format("{:.1f} s{}", report.seconds, report.budget_spent ? ", the whole budget" : "")},
      {"stored in", stored_in}});
}

bool has_record(const Tuned& tuned, const TuneReport& report) {
  return std::ranges::any_of(
      tuned.records, [&](const TuningRecord& record) { return to_string(record.bucket) == report.bucket; });
}

/// Returns the report of a forward, or the list of a backward's reports.
Json document_of(const Tuned& tuned, Context& context, const Options& options) {
  Json reports = Json::array();
  for (const TuneReport& report : tuned.reports) {
    reports.push_back(Json::parse(to_json(report)));
    reports.back()["stored_in"] =
        has_record(tuned, report) ? Json(context.impl().records.file().string()) : Json(nullptr);
  }
  return options.backward.wanted ? Json{{"searches", reports}} : reports.at(0);
}

int tune_one(Context& context, const Options& options, bool json) {
  const Tuned tuned = tune(context, options.problem.problem(), options, json);
  if (!options.records.empty()) {
    for (const TuningRecord& record : tuned.records) add_record(options.records, record);
  }
  if (json) {
    print_json(document_of(tuned, context, options));
    return kOk;
  }
  for (const TuneReport& report : tuned.reports) {
    if (&report != &tuned.reports.front()) fmt::print("\n");
    print_report(report, has_record(tuned, report) ? place_of_records(context, options)
                                                   : "nothing: too few candidates were measured to compare");
  }
  return kOk;
}

Json document_of(const std::vector<MatrixPoint>& points, const std::optional<Target>& target) {
  return {{"version", version()},
          {"device", target ? Json(target->device) : Json(nullptr)},
          {"points", json_of(points)}};
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

MatrixSearch search_with(Context& context, const Options& options, bool json) {
  return {.tune =
              [&context, &options, json](const PlannedProblem& problem) {
                Tuned tuned = tune(context, problem, options, json);
                if (tuned.is_complete()) return std::move(tuned.records);
                double seconds = 0;
                for (const TuneReport& report : tuned.reports) seconds += report.seconds;
                throw Unavailable(fmt::format(
                    "too few candidates to compare were measured in {:.1f} s: raise --budget-ms", seconds));
              },
          .keep =
              [&options](const TuningRecord& record) {
                if (!options.records.empty()) add_record(options.records, record);
              },
          .say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); },
          .now_seconds = steady_seconds};
}

int tune_matrix(Context& context, const Options& options, bool json) {
  auto problems = options.matrix == kStandard ? standard_matrix() : read_problems(options.matrix);
  std::optional<Target> target;
  if (!options.dry_run || device_count() > 0) target = target_of(options.device.gpu());
  if (target && !options.backward.wanted)
    for (PlannedProblem& p : problems) p = tuned_problem(p.normalized(), *target, context.impl().chooser);
  const PassesOf passes_of = [&](const PlannedProblem& problem) {
    return tuned_passes(problem.normalized(), options.backward.gradients, *target, context.impl().chooser);
  };
  std::vector<MatrixPoint> points = points_of(
      problems, options.records.empty() ? context.impl().records.records() : read_records(options.records),
      target, options.backward.wanted ? passes_of : forward_alone);
  if (options.dry_run) {
    json ? print_json(document_of(points, target))
         : fmt::print("{}", hanging(list_of(points), output_columns(), 0));
    return kOk;
  }
  search(points, search_with(context, options, json));
  if (json) {
    print_json(document_of(points, target));
  } else {
    fmt::print("{}", text_of(points, output_columns()));
    print_paragraph("records: " + place_of_records(context, options));
  }
  const bool failed = std::ranges::any_of(points, [](const MatrixPoint& p) { return !p.error.empty(); });
  return failed ? kFailed : kOk;
}

int run(const Options& options, bool json) {
  ContextOptions settings;
  settings.tune_budget_ms = options.budget_ms;
  Context context(settings);
  if (!options.records.empty() && !options.dry_run) {
    read_records(options.records);
    const OutputFile probe(options.records);  // reports a bad path before anything is measured
  }
  return options.matrix.empty() ? tune_one(context, options, json) : tune_matrix(context, options, json);
}

std::string check_matrix(const std::string& text) {
  std::error_code error;
  if (text == kStandard || std::filesystem::is_regular_file(text, error)) return {};
  return fmt::format("\"{}\", must be a file or {}", text, kStandard);
}

/// @throws CLI::ExcludesError if an option comes with --matrix, which makes it meaningless. CLI11 could check
/// this, but would list all options in the help.
void require_none(const std::vector<CLI::Option*>& options) {
  for (const CLI::Option* option : options) {
    if (option->count() > 0) throw CLI::ExcludesError("--matrix", option->get_name());
  }
}

void add_matrix(CLI::App& verb, Options& options) {
  auto* matrix = verb.add_option("--matrix", options.matrix,
                                 "Many problems: standard, or a file with one JSON object per line")
                     ->check(CLI::Validator(check_matrix, "standard|FILE"));
  verb.add_option("--records", options.records,
                  "Also put the records into this file, sorted, as in autotune/records");
  verb.add_flag("--dry-run", options.dry_run,
                "List the matrix's problems, and what would be skipped; measure nothing")
      ->needs(matrix);
}

}  // namespace

Verb add_tune(CLI::App& app) {
  CLI::App* verb = add_verb(
      app, "tune", "Measure configurations on a GPU and record the best: of one problem, or of a matrix",
      "fa2 tune --head-dim 128 --causal --window-left 4096 --seqlen 8192 --heads 32 --heads-kv 8\n"
      "  fa2 tune --matrix standard --records nvidia_h100_80gb_hbm3.jsonl\n"
      "  fa2 tune --backward --head-dim 128 --causal --seqlen 8192\n"
      "  fa2 tune --matrix standard --dry-run --json | jq -c '.points[].problem' >problems.jsonl",
      "With --matrix a search skips the problems of which --records, or else your own tuning file, has "
      "current records of this GPU. Each record is on disk before the next search begins: killed and "
      "run again, the command goes on where it was. With --backward each kernel of the plan but delta's "
      "is searched, with a budget and a record of its own.");
  const auto options = std::make_shared<Options>();
  const std::size_t common = verb->get_options().size();
  options->problem.add_to(*verb);
  const auto all = verb->get_options();
  const std::vector<CLI::Option*> of_one_problem(all.begin() + static_cast<std::ptrdiff_t>(common),
                                                 all.end());
  add_matrix(*verb, *options);
  options->device.add_to(*verb);
  verb->add_option("--budget-ms", options->budget_ms,
                   "Time per problem, including compilation (default: FA2_TUNE_BUDGET_MS)")
      ->check(CLI::Range(0, 3600 * 1000));
  verb->add_flag("--all", options->all,
                 "Measure every valid configuration, not the 24 likely ones: raise --budget-ms to minutes");
  options->backward.add_to(*verb, "Tune the kernels of the backward: dQ, dK and dV");
  return {verb, [verb, options, of_one_problem] {
            if (!options->matrix.empty()) require_none(of_one_problem);
            return run(*options, wants_json(*verb));
          }};
}

}  // namespace fa2::tools
