// Measures what the tuning record of one problem costs another problem of its bucket, relative to that
// problem's own record.
#include <bench/bench_main.h>
#include <bench/in_turn.h>
#include <bench/problem_pairs.h>
#include <fa2/attention.h>
#include <fmt/format.h>
#include <runtime/device.h>
#include <tools/bench_inputs.h>
#include <tools/launch_timer.h>
#include <tools/problem_options.h>
#include <tools/table.h>
#include <tools/verb.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

using namespace fa2;
using namespace fa2::tools;
using fa2::bench::ProblemPair;
using fa2::bench::ProblemPairs;

namespace {

struct Options {
  int pairs = 50, rounds = 9;
  std::int64_t budget_ms = 3000;
  std::uint64_t seed = 1;
  std::string cache = (std::filesystem::temp_directory_path() / "fa2-record-pairs").string();
  GpuOption device;
  bool dry_run = false, json = false;
};

/// The second problem of a pair: its time with the first problem's record, and with its own.
struct Point {
  ProblemPair pair;
  KernelReport recorded, searched;
  double recorded_us = 0, searched_us = 0;  ///< medians; 0: not measured
  std::string error;

  double cost() const { return searched_us > 0 ? recorded_us / searched_us : 0; }
};

/// If both plans use the same kernel, one time serves both.
void time_both(Point& point, const AttentionPlan& recorded, const AttentionPlan& searched, int rounds) {
  const BenchInputs inputs({point.pair.second});
  const AttentionArgs args = inputs.args(point.pair.second);
  std::tie(point.recorded_us, point.searched_us) =
      bench::medians_in_turn(launch_of(recorded, args), launch_of(searched, args), rounds);
  if (point.recorded.config == point.searched.config) point.searched_us = point.recorded_us;
}

/// Plans after each search, because the newest record of a bucket wins.
void measure(Point& point, Context& context, const Device& gpu, int rounds) {
  const auto plan_after_search_of = [&](const PlannedProblem& problem) {
    context.tune(problem, gpu.ordinal);
    return context.plan(point.pair.second, gpu.ordinal);
  };
  const AttentionPlan recorded = plan_after_search_of(point.pair.first);
  const AttentionPlan searched = plan_after_search_of(point.pair.second);
  point.recorded = recorded.explain().kernels.front();
  point.searched = searched.explain().kernels.front();
  for (const KernelReport* report : {&point.recorded, &point.searched}) {
    if (report->config_origin != ConfigOrigin::tuned_exact)
      throw Error(ErrorCode::internal, "no exact record was followed: " + report->config_reason);
  }
  time_both(point, recorded, searched, rounds);
}

/// Measures all points. An error costs only its point.
void measure(std::vector<Point>& points, const Options& options, const Device& gpu) {
  const ScopedContext current(gpu.ordinal);
  ContextOptions settings;
  settings.cache_dir = options.cache;
  settings.read_only_caches.emplace();
  settings.tune = TuneMode::stored;
  settings.tune_budget_ms = options.budget_ms;
  Context context(settings);
  for (Point& point : points) {
    try {
      measure(point, context, gpu, options.rounds);
    } catch (const Error& error) {
      point.error = error.what();
      fmt::print(stderr, "fa2_record_pairs: {}: {}\n", to_string(point.pair.second), point.error);
    }
  }
}

/// "64x28/4x1x2048": batch, heads, queries, keys.
std::string sizes_of(const PlannedProblem& p) {
  return fmt::format("{}x{}/{}x{}x{}", p.batch, p.heads_q, p.heads_kv, p.seqlen_q, p.seqlen_k);
}

std::string summary_of(const std::vector<Point>& points) {
  constexpr double kLimit = 1.1;
  double worst = 0;
  for (const Point& point : points) worst = std::max(worst, point.cost());
  const auto above = std::ranges::count_if(points, [](const Point& p) { return p.cost() > kLimit; });
  const auto failed = std::ranges::count_if(points, [](const Point& p) { return !p.error.empty(); });
  return fmt::format("{} pairs: worst {:.2f}, {} above {:.2f}, {} failed", points.size(), worst, above,
                     kLimit, failed);
}

void print_table(const std::vector<Point>& points, bool is_measured) {
  Table table({{"kind"},
               number("dim"),
               {"recorded"},
               {"timed"},
               number("record us"),
               number("own us"),
               number("cost")});
  for (const Point& p : points) {
    table.add({std::string(p.pair.kind), fmt::format("{}", p.pair.first.head_dim), sizes_of(p.pair.first),
               sizes_of(p.pair.second), us_text(p.recorded_us), us_text(p.searched_us),
               p.cost() > 0 ? fmt::format("{:.2f}", p.cost()) : "-"});
  }
  print(table);
  if (is_measured) fmt::print("{}\n", summary_of(points));
}

Json json_of(const Point& p) {
  Json row = {{"kind", p.pair.kind}, {"bucket", to_string(bucket_of(p.pair.second))}};
  row.update({{"recorded", to_string(p.pair.first)}, {"timed", to_string(p.pair.second)}});
  if (p.searched_us > 0) {
    row.update({{"recorded_us", p.recorded_us}, {"searched_us", p.searched_us}, {"cost", p.cost()}});
    row.update({{"recorded_config", to_string(p.recorded.config)},
                {"searched_config", to_string(p.searched.config)}});
  }
  row["error"] = p.error;
  return row;
}

void print_document(const std::vector<Point>& points, const Options& options, const Device* gpu) {
  Json json = {{"version", version()}, {"seed", options.seed}, {"rounds", options.rounds}};
  if (gpu != nullptr) json.update({{"device", gpu->name}, {"driver", driver_version()}});
  json["pairs"] = Json::array();
  for (const Point& point : points) json["pairs"].push_back(json_of(point));
  print_json(json);
}

int run(const Options& options) {
  ProblemPairs pairs(options.seed);
  std::vector<Point> points(static_cast<std::size_t>(options.pairs));
  for (Point& point : points) point.pair = pairs.next();
  const Device* const gpu = options.dry_run ? nullptr : &options.device.gpu();
  if (gpu != nullptr) measure(points, options, *gpu);
  options.json ? print_document(points, options, gpu) : print_table(points, gpu != nullptr);
  return std::ranges::all_of(points, [](const Point& p) { return p.error.empty(); }) ? kOk : kFailed;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--pairs", options.pairs, "How many pairs")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the pairs")->capture_default_str();
  app.add_option("--rounds", options.rounds, "Bursts of each kernel")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--budget-ms", options.budget_ms, "Of each search, as FA2_TUNE_BUDGET_MS")
      ->check(CLI::Range(1, 600000))
      ->capture_default_str();
  app.add_option("--cache", options.cache, "Directory of its kernels and records, kept for the next run")
      ->capture_default_str();
  options.device.add_to(app);
  app.add_flag("--dry-run", options.dry_run, "Print the pairs, measure nothing");
  app.add_flag("--json", options.json, "Print one JSON document");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures what a tuning record costs another problem of its bucket.", "fa2_record_pairs");
  app.footer(
      "Draws pairs of problems that share a bucket. Searches the first and times the second by that record,\n"
      "then searches the second and times it by its own. Sizes are batch x heads x queries x keys; times "
      "are\n"
      "medians over bursts in turn; cost is their quotient. 50 pairs take some 4 minutes.\n\n"
      "Example:\n  fa2_record_pairs --pairs 50 --seed 7");
  Options options;
  add_options(app, options);
  return bench::run_bench(app, argc, argv, [&] { return run(options); });
}
