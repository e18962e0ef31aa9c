// fa2 bench: speed over a matrix of problems, by default FlashAttention's.
#include <api/explanation.h>
#include <api/settings.h>
#include <fmt/format.h>
#include <generator/problem_text.h>
#include <tools/backward_options.h>
#include <tools/bench_inputs.h>
#include <tools/bench_workload.h>
#include <tools/flops.h>
#include <tools/launch_timer.h>
#include <tools/problem_options.h>
#include <tools/progress.h>
#include <tools/table.h>
#include <tools/verb.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <random>

namespace fa2::tools {
namespace {

/// Size of a cache's copies, in units of L2. Launches read them in turn, so none finds its data in L2.
constexpr double kColdCaches = 10;

struct Options {
  WorkloadOptions work;
  int rounds = 9;
  std::string tune;
  GpuOption device;
  BackwardOptions backward;

  Direction direction() const { return backward.wanted ? Direction::backward : Direction::forward; }
};

/// One cell of the table.
struct Point {
  AttentionProblem problem;
  double flops = 0;
  double bytes = 0;  ///< bytes of keys and values
  int copies = 1;    ///< copies of keys and values
  std::optional<Explanation> explanation;
  Launch forward;                         ///< for a backward: its forward; else empty
  std::optional<DeviceTables> tables;     ///< used over a cache
  std::optional<DeviceBuffer> workspace;  ///< used over a cache
  std::optional<LaunchTimer> timer;
  std::vector<double> samples;  ///< microseconds per launch, one per round
  std::string error;            ///< why it could not be measured

  Spread us() const { return samples.empty() ? Spread{} : spread_of(samples); }
  double tflops() const { return tools::tflops(flops, us().median); }
  double tb_per_s() const { return tools::tflops(bytes, us().median); }
};

int copies_of(double bytes, const Device& gpu) {
  const double cold = kColdCaches * static_cast<double>(gpu.l2_bytes);
  return bytes > 0 ? std::max(2, static_cast<int>(std::ceil(cold / bytes))) : 1;
}

std::vector<Point> points_of(const Workload& work, const Options& options, const Device& gpu) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < work.problems.size(); ++i) {
    const AttentionProblem& problem = work.problems[i];
    const SequenceTables& tables = work.tables_of(i);
    Point& point = points.emplace_back();
    point.problem = problem;
    point.flops =
        (options.backward.wanted ? kBackwardFlops : 1) * flops_of(problem, tables.pointers(problem));
    point.bytes = key_value_bytes(problem, tables);
    if (!work.is_cached()) continue;
    point.tables.emplace(tables);
    point.copies = copies_of(point.bytes, gpu);
  }
  return points;
}

std::vector<int> copies_of(const std::vector<Point>& points) {
  std::vector<int> copies;
  for (const Point& point : points) copies.push_back(point.copies);
  return copies;
}

/// Runs a step for one point. An error costs only that point.
template <class Step>
void attempt(Point& point, const Step& step) {
  if (!point.error.empty()) return;
  try {
    step();
  } catch (const Error& error) {
    point.error = error.what();
  }
}

/// Contexts of timed plans, and of the forwards that backwards need, which are not timed and need no search.
struct Contexts {
  Context timed, of_forwards;
};

ContextOptions with_tune(std::optional<TuneMode> tune) {
  ContextOptions options;
  options.tune = tune;
  // Nothing may measure beside a benchmark.
  if (settings_of(options).tune == TuneMode::learn) options.tune = TuneMode::stored;
  return options;
}

/// Returns launches that visit the copies of the cache in turn. They have a workspace, as in a server, so
/// none allocates.
Launch launch_over_caches(Point& point, const AttentionPlan& plan, const BenchInputs& inputs) {
  point.workspace.emplace(plan.workspace_bytes());
  point.workspace->fill(0);
  std::vector<AttentionArgs> calls;
  for (int copy = 0; copy < point.copies; ++copy) {
    calls.push_back(inputs.args(point.problem, copy));
    point.tables->add_to(calls.back(), point.problem);
    calls.back().workspace = point.workspace->data();
  }
  return [plan, calls = std::move(calls), next = std::size_t{0}](Stream stream) mutable {
    plan.run(calls[next++ % calls.size()], stream);
  };
}

void prepare_forward(Point& point, Contexts& contexts, const Device& gpu, const BenchInputs& inputs,
                     const OwnedStream& stream, const Gradients&) {
  const AttentionPlan plan = contexts.timed.plan(point.problem, gpu.ordinal);
  point.explanation = plan.explain();
  point.timer.emplace(
      point.tables ? launch_over_caches(point, plan, inputs) : launch_of(plan, inputs.args(point.problem)),
      stream);
}

void prepare_backward(Point& point, Contexts& contexts, const Device& gpu, const BenchInputs& inputs,
                      const OwnedStream& stream, const Gradients& gradients) {
  const BackwardPlan plan = contexts.timed.backward_plan(point.problem, gpu.ordinal, gradients);
  point.explanation = plan.explain();
  point.forward =
      launch_of(contexts.of_forwards.plan(point.problem, gpu.ordinal), inputs.args(point.problem));
  point.forward(stream.get());
  point.timer.emplace(launch_of(plan, inputs.backward_args(point.problem)), stream);
}

void prepare(std::vector<Point>& points, Contexts& contexts, const Device& gpu, const BenchInputs& inputs,
             const OwnedStream& stream, const Options& options, bool json) {
  Progress progress("preparing", points.size(), json);
  for (std::size_t i = 0; i < points.size(); ++i) {
    Point& point = points[i];
    progress.update(i, to_string(point.problem));
    const auto prepare_one = options.backward.wanted ? prepare_backward : prepare_forward;
    attempt(point, [&] { prepare_one(point, contexts, gpu, inputs, stream, options.backward.gradients); });
  }
}

/// Times a burst after the point's own forward, because all points share O and LSE.
double burst_us(Point& point, const OwnedStream& stream) {
  if (point.forward) point.forward(stream.get());
  return point.timer->burst_us();
}

/// Measures one burst of every point per round, in shuffled order, so that drifting clocks affect all points
/// alike.
void measure(std::vector<Point>& points, int rounds, const OwnedStream& stream, bool json) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(1);
  Progress progress("measuring", points.size() * static_cast<std::size_t>(rounds), json);
  std::size_t done = 0;
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      Point& point = points[i];
      attempt(point, [&] { point.samples.push_back(burst_us(point, stream)); });
      progress.update(++done, to_string(point.problem));
    }
  }
}

Json json_of(const Point& point) {
  const Spread us = point.us();
  Json json = {{"problem", to_string(point.problem)},
               {"tflops", point.tflops()},
               {"median_us", us.median},
               {"p10_us", us.p10},
               {"p90_us", us.p90},
               {"key_value_bytes", point.bytes},
               {"tb_per_s", point.tb_per_s()},
               {"copies", point.copies},
               {"samples_us", point.samples},
               {"launches_per_burst", point.timer ? point.timer->launches() : 0},
               {"error", point.error}};
  json["explanation"] = point.explanation ? Json::parse(to_json(*point.explanation)) : Json(nullptr);
  return json;
}

/// Returns null without packed sequences.
Json lengths_of(const std::vector<std::int32_t>& cu_seqlens) {
  if (cu_seqlens.empty()) return nullptr;
  const LengthSummary lengths = summary_of(cu_seqlens);
  return {{"total", lengths.total},
          {"longest", lengths.longest},
          {"mean", lengths.mean},
          {"cu_seqlens", cu_seqlens}};
}

Json document_of(const std::vector<Point>& points, const Workload& work, const Options& options,
                 const Device& gpu) {
  Json json = {{"version", version()},
               {"device", gpu.name},
               {"arch", gpu.arch.name},
               {"driver", driver_version()},
               {"tokens", options.work.matrix.tokens},
               {"hidden", options.work.matrix.hidden},
               {"lengths", lengths_of(work.tables.cu_seqlens_q)},
               {"lengths_k", lengths_of(work.tables.cu_seqlens_k)},
               {"backward", options.backward.wanted},
               {"determinism", word_of(options.backward.gradients.determinism)},
               {"rounds", options.rounds},
               {"points", Json::array()}};
  for (const Point& point : points) json["points"].push_back(json_of(point));
  return json;
}

/// Returns "causal window_left 4096 softcap".
std::string mask_text(const AttentionProblem& p) {
  const std::string variants = variants_of(p);
  return (p.mask == MaskKind::none ? "full" : "causal") + (variants.empty() ? "" : " " + variants);
}

/// Returns "p10..p90 of a point: 0.8% of its median typically, 2.1% at worst".
std::string spread_text(const std::vector<Point>& points) {
  std::vector<double> widths;
  for (const Point& point : points) {
    if (const Spread us = point.us(); us.median > 0) widths.push_back((us.p90 - us.p10) / us.median * 100);
  }
  if (widths.empty()) return "nothing was measured";
  return fmt::format("p10..p90 of a point: {:.1f}% of its median typically, {:.1f}% at worst",
                     spread_of(widths).median, *std::max_element(widths.begin(), widths.end()));
}

std::string cell_of(const Point& point, double value, int digits) {
  return point.samples.empty() ? "failed" : fmt::format("{:.{}f}", value, digits);
}

std::vector<std::string> traits_of(const AttentionProblem& p) {
  return {std::string(to_string(p.dtype)), fmt::format("{}", p.head_dim), mask_text(p)};
}

/// Returns a table with one row per problem of the matrix and one column per length.
Table table_by_length(const std::vector<Point>& points, const Workload& work) {
  std::vector<Column> columns = {{"dtype"}, number("head_dim"), detail("mask")};
  for (const std::string& column : work.columns) columns.push_back(number(column));
  Table table(std::move(columns));
  const std::size_t width = work.columns.size();
  for (std::size_t first = 0; first < points.size(); first += width) {
    std::vector<std::string> cells = traits_of(points[first].problem);
    for (std::size_t i = first; i < first + width; ++i)
      cells.push_back(cell_of(points[i], points[i].tflops(), 1));
    table.add(std::move(cells));
  }
  return table;
}

/// Returns a table with one row per cache.
Table table_of_caches(const std::vector<Point>& points, const Workload& work) {
  Table table({{"dtype"},
               number("head_dim"),
               detail("mask"),
               number("batch"),
               number("heads"),
               number("queries"),
               number("keys"),
               number("page"),
               number("us"),
               number("TB/s"),
               number("TFLOP/s")});
  for (std::size_t i = 0; i < points.size(); ++i) {
    const AttentionProblem& p = points[i].problem;
    std::vector<std::string> cells = traits_of(p);
    cells.push_back(fmt::format("{}", p.batch));
    cells.push_back(fmt::format("{}/{}", p.heads_q, p.heads_kv));
    cells.push_back(fmt::format("{}", p.seqlen_q));
    cells.push_back(work.keys[i]);
    cells.push_back(p.page_size > 0 ? fmt::format("{}", p.page_size) : "-");
    cells.push_back(cell_of(points[i], points[i].us().median, 1));
    cells.push_back(cell_of(points[i], points[i].tb_per_s(), 2));
    cells.push_back(cell_of(points[i], points[i].tflops(), 1));
    table.add(std::move(cells));
  }
  return table;
}

void print_table(const std::vector<Point>& points, const Workload& work, const Options& options,
                 const Device& gpu) {
  print_paragraph(fmt::format("{}{} {}; {}, driver {}", options.backward.wanted ? "Backward" : "Forward",
                              work.is_cached() ? "" : " TFLOP/s", work.text, gpu.name, driver_version()));
  print(work.is_cached() ? table_of_caches(points, work) : table_by_length(points, work));
  if (work.is_cached())
    print_paragraph(
        "TB/s of the keys and values that sequences have, read from memory: launches take copies in turn.");
  print_paragraph(fmt::format("Medians of {} rounds of bursts. {}", options.rounds, spread_text(points)));
}

int run(const Options& options, bool json) {
  const Workload work = workload_of(options.work);
  const Device& gpu = options.device.gpu();
  const ScopedContext device_context(gpu.ordinal);
  std::vector<Point> points = points_of(work, options, gpu);
  Contexts contexts{Context(with_tune(enumerator_of<TuneMode>(options.tune))),
                    Context(with_tune(TuneMode::stored))};
  BenchInputs inputs(work.problems, work.tables, options.direction(), copies_of(points));
  inputs.capture(options.work.matrix.captures);
  const OwnedStream stream;
  prepare(points, contexts, gpu, inputs, stream, options, json);
  measure(points, options.rounds, stream, json);
  json ? print_json(document_of(points, work, options, gpu)) : print_table(points, work, options, gpu);
  std::fflush(stdout);
  int status = kOk;
  for (const Point& point : points) {
    if (point.error.empty()) continue;
    fmt::print(stderr, "fa2 bench: {}: {}\n", to_string(point.problem), point.error);
    status = kFailed;
  }
  return status;
}

}  // namespace

Verb add_bench(CLI::App& app) {
  CLI::App* verb = add_verb(
      app, "bench",
      "Measure speed in TFLOP/s, of the forward or the backward; FlashAttention's matrix by default",
      "fa2 bench --head-dim 64,128 --seqlen 1024,4096 --causal yes\n"
      "  fa2 bench --backward --head-dim 128 --causal yes\n"
      "  fa2 bench --head-dim 128 --causal yes --window-left 4096 --softcap\n"
      "  fa2 bench --head-dim 128 --causal yes --lengths lognormal:512 --batch 64\n"
      "  fa2 bench --decode\n"
      "  fa2 bench --head-dim 128 --hidden 4096 --heads-kv 8 --lengths lognormal:4096 --batch 64 --seqlen-q "
      "1 --page-size 16",
      "FLOPs are 4 * batch * heads * seqlen^2 * head_dim, half of that if causal; with a window or chunks, 4 "
      "* "
      "head_dim for each pair of a query and a key that it sees. Packed sequences have the sum of "
      "theirs. A backward has 2.5 times the forward's, over the time of its whole call: all kernels, "
      "from O and LSE to dQ, dK and dV.\n"
      "With --decode or --seqlen-q keys and values lie in caches. Launches take copies of them in turn, "
      "ten times what L2 holds, so that they read memory. TB/s count the bytes of one copy once. All "
      "else is as warm as launches leave it.");
  const auto options = std::make_shared<Options>();
  options->work.add_to(*verb);
  verb->add_option("--rounds", options->rounds, "Bursts of every point")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option("--tune", options->tune, "Choice of configurations (default: FA2_TUNE)")
      ->check(word_check<TuneMode>());
  options->device.add_to(*verb);
  options->backward.add_to(*verb, "Measure the backward: dQ, dK and dV")
      ->excludes("--decode")
      ->excludes("--seqlen-q");
  return {verb, [verb, options] { return run(*options, wants_json(*verb)); }};
}

}  // namespace fa2::tools
