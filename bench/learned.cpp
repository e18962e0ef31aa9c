// Measures how good the configurations are that a program learns in the background while it works.
#include <bench/bench_main.h>
#include <bench/in_turn.h>
#include <bench/problem_pairs.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fmt/format.h>
#include <runtime/device.h>
#include <tools/bench_inputs.h>
#include <tools/problem_options.h>
#include <tools/table.h>
#include <tools/verb.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace fa2;
using namespace fa2::tools;

namespace {

struct Options {
  int problems = 16, first = 0, processes = 2, rounds = 9;
  double seconds = 60;
  std::int64_t budget_ms = 10'000;
  std::uint64_t seed = 1;
  std::string cache = (std::filesystem::temp_directory_path() / "fa2-learned").string();
  std::string program;
  GpuOption device;
  int repeat = -1;
  bool dry_run = false, json = false;
};

/// What a program repeats.
struct Work {
  PlannedProblem problem;
  Direction direction = Direction::forward;

  std::string text() const {
    return to_string(problem) + (direction == Direction::backward ? ", backward" : "");
  }
};

struct Point {
  Work work;
  double learned_us = 0, searched_us = 0;  ///< medians; 0: not measured
  std::string learned, searched;           ///< configurations
  std::string error;

  double cost() const { return searched_us > 0 ? learned_us / searched_us : 0; }
};

/// Returns random problems. Every fourth, of equal lengths, is a backward.
std::vector<Work> draw(const Options& options) {
  bench::ProblemPairs pairs(options.seed);
  std::vector<Work> all;
  for (int i = 0; i < options.first + options.problems; ++i) {
    const bench::ProblemPair pair = pairs.next();
    all.push_back({pair.first, pair.kind == "forward" ? Direction::backward : Direction::forward});
  }
  return {all.begin() + options.first, all.end()};
}

std::string configs_of(const Explanation& explanation) {
  std::string text;
  for (const KernelReport& kernel : explanation.kernels)
    text += (text.empty() ? "" : " ") + to_string(kernel.config);
  return text;
}

/// Returns the launch of the work by this context, and its configurations.
std::pair<Launch, std::string> planned(const Work& work, Context& context, const BenchInputs& inputs,
                                       int gpu) {
  if (work.direction == Direction::forward) {
    const AttentionPlan plan = context.plan(work.problem, gpu);
    return {launch_of(plan, inputs.args(work.problem)), configs_of(plan.explain())};
  }
  context.plan(work.problem, gpu).run(inputs.args(work.problem));  // writes O and LSE
  const BackwardPlan plan = context.backward_plan(work.problem, gpu, {});
  return {launch_of(plan, inputs.backward_args(work.problem)), configs_of(plan.explain())};
}

ContextOptions options_of(const std::string& cache, TuneMode tune, const Options& options) {
  ContextOptions settings;
  settings.cache_dir = cache;
  settings.read_only_caches.emplace();
  settings.tune = tune;
  settings.tune_budget_ms = options.budget_ms;
  if (tune != TuneMode::learn) settings.jit = JitMode::lazy;  // others would disturb what is timed
  return settings;
}

/// Does the work for some seconds, as a program would that uses the GPU for nothing else.
void repeat(const Work& work, const std::string& cache, const Options& options, const Device& gpu) {
  const ScopedContext current(gpu.ordinal);
  const BenchInputs inputs({work.problem}, {}, work.direction);
  Context context(options_of(cache, TuneMode::learn, options));
  const Launch launch = planned(work, context, inputs, gpu.ordinal).first;
  const OwnedStream stream;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.seconds);
  constexpr int kAhead = 16;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < kAhead; ++i) launch(stream.get());
    stream.synchronize();
  }
}

/// Compares what was learned with what a search finds alone on the GPU.
void compare(Point& point, const std::string& cache, const Options& options, const Device& gpu) {
  const ScopedContext current(gpu.ordinal);
  const BenchInputs inputs({point.work.problem}, {}, point.work.direction);
  Context learned(options_of(cache, TuneMode::stored, options));
  Context searching(options_of(cache + "-now", TuneMode::now, options));
  Launch first, second;
  std::tie(second, point.searched) = planned(point.work, searching, inputs, gpu.ordinal);
  std::tie(first, point.learned) = planned(point.work, learned, inputs, gpu.ordinal);
  std::tie(point.learned_us, point.searched_us) = bench::medians_in_turn(first, second, options.rounds);
}

void measure(Point& point, int number, const Options& options, const Device& gpu) {
  const std::string cache = fmt::format("{}/{}-{}", options.cache, options.seed, number);
  const std::string again =
      fmt::format("'{}' --repeat {} --seed {} --seconds {} --cache '{}' --device {}", options.program, number,
                  options.seed, options.seconds, options.cache, gpu.ordinal);
  try {
    for (int i = 0; i < options.processes; ++i) {
      if (std::system(again.c_str()) != 0) throw Error(ErrorCode::internal, "failed: " + again);
    }
    compare(point, cache, options, gpu);
  } catch (const Error& error) {
    point.error = error.what();
    fmt::print(stderr, "fa2_learned: {}: {}\n", point.work.text(), point.error);
  }
}

std::string summary_of(const std::vector<Point>& points) {
  double worst = 0;
  for (const Point& point : points) worst = std::max(worst, point.cost());
  const auto within =
      std::ranges::count_if(points, [](const Point& p) { return p.cost() > 0 && p.cost() <= 1.02; });
  return fmt::format("{} of {} within 1.02 of a search, worst {:.2f}", within, points.size(), worst);
}

Json json_of(const Point& p) {
  return {{"work", p.work.text()}, {"learned_us", p.learned_us},  {"searched_us", p.searched_us},
          {"cost", p.cost()},      {"learned_config", p.learned}, {"searched_config", p.searched},
          {"error", p.error}};
}

void print_all(const std::vector<Point>& points, const Options& options, const Device* gpu) {
  if (options.json) {
    Json json = {{"version", version()}, {"seed", options.seed}, {"points", Json::array()}};
    if (gpu != nullptr) json.update({{"device", gpu->name}, {"driver", driver_version()}});
    for (const Point& point : points) json["points"].push_back(json_of(point));
    return print_json(json);
  }
  Table table({{"work"}, number("learned us"), number("search us"), number("cost")});
  for (const Point& p : points) {
    table.add({p.work.text(), us_text(p.learned_us), us_text(p.searched_us),
               p.cost() > 0 ? fmt::format("{:.3f}", p.cost()) : "-"});
  }
  print(table);
  if (gpu != nullptr) fmt::print("{}\n", summary_of(points));
}

int run(Options options) {
  if (options.repeat >= 0) {
    const std::string cache = fmt::format("{}/{}-{}", options.cache, options.seed, options.repeat);
    options.first = options.repeat, options.problems = 1;
    repeat(draw(options).front(), cache, options, options.device.gpu());
    return kOk;
  }
  std::vector<Point> points;
  for (const Work& work : draw(options))
    points.push_back({.work = work, .learned = "", .searched = "", .error = ""});
  const Device* const gpu = options.dry_run ? nullptr : &options.device.gpu();
  for (std::size_t i = 0; gpu != nullptr && i < points.size(); ++i)
    measure(points[i], options.first + static_cast<int>(i), options, *gpu);
  print_all(points, options, gpu);
  return std::ranges::all_of(points, [](const Point& p) { return p.error.empty(); }) ? kOk : kFailed;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--problems", options.problems, "How many problems")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--first", options.first, "Number of the first; of several GPUs each can take some")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the problems")->capture_default_str();
  app.add_option("--processes", options.processes, "Processes that repeat a problem, one after the other")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "How long each of them does")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Bursts of each configuration")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--budget-ms", options.budget_ms, "Of the search that it is compared with")
      ->check(CLI::Range(1, 600000))
      ->capture_default_str();
  app.add_option("--cache", options.cache,
                 "Folder of the caches, one for each problem; new ones learn from nothing")
      ->capture_default_str();
  app.add_option("--repeat", options.repeat)->group("");  // in the processes that repeat a problem
  options.device.add_to(app);
  app.add_flag("--dry-run", options.dry_run, "Print the problems, measure nothing");
  app.add_flag("--json", options.json, "Print one JSON document");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures the configurations that a program learns in the background.", "fa2_learned");
  app.footer(
      "Draws problems. Processes repeat each of them, so that the GPU is never idle, and learn\n"
      "meanwhile. The table has the time of the configuration that a later process uses, the time\n"
      "of what FA2_TUNE=now finds alone on the GPU, and their quotient. 16 problems take 35\n"
      "minutes on one GPU.\n\n"
      "Example:\n  fa2_learned --problems 4 --seed 7");
  Options options;
  options.program = argv[0];
  add_options(app, options);
  return bench::run_bench(app, argc, argv, [&] { return run(options); });
}
