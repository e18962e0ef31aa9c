// fa2 bench: speed over a matrix of problems; FlashAttention's by default.
#include <api/explanation.h>
#include <fmt/format.h>
#include <generator/problem_text.h>
#include <tools/backward_options.h>
#include <tools/bench_inputs.h>
#include <tools/length_options.h>
#include <tools/measure.h>
#include <tools/problem_options.h>
#include <tools/progress.h>
#include <tools/table.h>
#include <tools/verb.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <random>

namespace fa2::tools {
namespace {

struct Options {
  MatrixOptions matrix;
  LengthOptions lengths;
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
  std::optional<Explanation> explanation;
  Launch forward;  ///< of a backward: what it needs of the forward; else none
  std::optional<LaunchTimer> timer;
  std::vector<double> samples;  ///< microseconds per launch, one a round
  std::string error;            ///< why it could not be measured

  Spread us() const { return samples.empty() ? Spread{} : spread_of(samples); }
  double tflops() const { return tools::tflops(flops, us().median); }
};

/// What is measured: the matrix at every length, or of one mix of lengths.
struct Workload {
  std::vector<AttentionProblem> problems;  ///< row by row of the table
  std::vector<std::string> columns;
  SequenceTables tables;  ///< none without a mix
  std::string text;       ///< "16384 tokens, hidden 2048"
};

Workload batched(const MatrixOptions& matrix) {
  Workload work{.problems = matrix.problems(), .columns = {}, .tables = {}, .text = {}};
  for (const std::int64_t seqlen : matrix.seqlens) work.columns.push_back(fmt::format("{}", seqlen));
  work.text = fmt::format("by sequence length: {} tokens, hidden {}", matrix.tokens, matrix.hidden);
  return work;
}

std::string text(const LengthSummary& lengths, const char* of) {
  return fmt::format("{} {}, longest {}, mean {:.1f}", lengths.total, of, lengths.longest, lengths.mean);
}

/// Each problem of the matrix once, of packed sequences.
Workload packed(MatrixOptions matrix, const LengthOptions& options) {
  Workload work{
      .problems = {}, .columns = {options.lengths}, .tables = options.tables(matrix.tokens), .text = {}};
  const LengthSummary q = summary_of(work.tables.cu_seqlens_q), k = summary_of(work.tables.cu_seqlens_k);
  matrix.seqlens = {1};
  for (AttentionProblem problem : matrix.problems()) {
    problem.batch = q.batch;
    set_lengths(problem, work.tables, q.total, k.total);
    require_valid_flags(problem);
    work.problems.push_back(problem);
  }
  work.text = fmt::format("of {} packed sequences: {}{}, hidden {}", q.batch, text(q, "tokens"),
                          options.lengths_k.empty() ? "" : ", " + text(k, "keys"), matrix.hidden);
  return work;
}

/// @throws CLI::ValidationError.
Workload workload_of(const Options& options) {
  return options.lengths.given() ? packed(options.matrix, options.lengths) : batched(options.matrix);
}

std::vector<Point> points_of(const Workload& work, const Options& options) {
  std::vector<Point> points;
  for (const AttentionProblem& problem : work.problems) {
    points.emplace_back().problem = problem;
    points.back().flops =
        (options.backward.wanted ? kBackwardFlops : 1) * flops_of(problem, work.tables.pointers(problem));
  }
  return points;
}

/// Runs a step of one point; an error costs that point only.
template <class Step>
void attempt(Point& point, const Step& step) {
  if (!point.error.empty()) return;
  try {
    step();
  } catch (const Error& error) {
    point.error = error.what();
  }
}

/// Forwards that a backward needs are not timed: worth no search.
struct Contexts {
  Context timed, of_forwards;
};

ContextOptions with_tune(std::optional<TuneMode> tune) {
  ContextOptions settings;
  settings.tune = tune;
  return settings;
}

void prepare_forward(Point& point, Contexts& contexts, const Device& gpu, const BenchInputs& inputs,
                     const OwnedStream& stream, const Gradients&) {
  const AttentionPlan plan = contexts.timed.plan(point.problem, gpu.ordinal);
  point.explanation = plan.explain();
  point.timer.emplace(launch_of(plan, inputs.args(point.problem)), stream);
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

/// After the point's own forward: all points share O and LSE.
double burst_us(Point& point, const OwnedStream& stream) {
  if (point.forward) point.forward(stream.get());
  return point.timer->burst_us();
}

/// One burst of every point a round, in an order shuffled every round: drifting clocks hit all points alike.
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
               {"samples_us", point.samples},
               {"launches_per_burst", point.timer ? point.timer->launches() : 0},
               {"error", point.error}};
  json["explanation"] = point.explanation ? Json::parse(to_json(*point.explanation)) : Json(nullptr);
  return json;
}

/// null without a mix.
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
               {"tokens", options.matrix.tokens},
               {"hidden", options.matrix.hidden},
               {"lengths", lengths_of(work.tables.cu_seqlens_q)},
               {"lengths_k", lengths_of(work.tables.cu_seqlens_k)},
               {"backward", options.backward.wanted},
               {"determinism", word_of(options.backward.gradients.determinism)},
               {"rounds", options.rounds},
               {"points", Json::array()}};
  for (const Point& point : points) json["points"].push_back(json_of(point));
  return json;
}

/// "causal window_left 4096 softcap".
std::string mask_text(const AttentionProblem& p) {
  const std::string variants = variants_of(p);
  return (p.mask == MaskKind::none ? "full" : "causal") + (variants.empty() ? "" : " " + variants);
}

/// "p10..p90 of a point: 0.8% of its median typically, 2.1% at worst".
std::string spread_text(const std::vector<Point>& points) {
  std::vector<double> widths;
  for (const Point& point : points) {
    if (const Spread us = point.us(); us.median > 0) widths.push_back((us.p90 - us.p10) / us.median * 100);
  }
  if (widths.empty()) return "nothing was measured";
  return fmt::format("p10..p90 of a point: {:.1f}% of its median typically, {:.1f}% at worst",
                     spread_of(widths).median, *std::max_element(widths.begin(), widths.end()));
}

void print_table(const std::vector<Point>& points, const Workload& work, const Options& options,
                 const Device& gpu) {
  std::vector<Column> columns = {{"dtype"}, number("head_dim"), {"mask"}};
  for (const std::string& column : work.columns) columns.push_back(number(column));
  Table table(std::move(columns));
  const std::size_t width = work.columns.size();
  for (std::size_t first = 0; first < points.size(); first += width) {
    const AttentionProblem& p = points[first].problem;
    std::vector<std::string> cells = {std::string(to_string(p.dtype)), fmt::format("{}", p.head_dim),
                                      mask_text(p)};
    for (std::size_t i = first; i < first + width; ++i) {
      const bool is_measured = !points[i].samples.empty();
      cells.push_back(is_measured ? fmt::format("{:.1f}", points[i].tflops()) : "failed");
    }
    table.add(std::move(cells));
  }
  fmt::print("{} TFLOP/s {}; {}, driver {}\n", options.backward.wanted ? "Backward" : "Forward", work.text,
             gpu.name, driver_version());
  print(table);
  fmt::print("Medians of {} rounds of bursts. {}\n", options.rounds, spread_text(points));
}

int run(const Options& options, bool json) {
  const Workload work = workload_of(options);
  std::vector<Point> points = points_of(work, options);
  const Device& gpu = options.device.gpu();
  const ScopedContext device_context(gpu.ordinal);
  Contexts contexts{Context(with_tune(enumerator_of<TuneMode>(options.tune))),
                    Context(with_tune(TuneMode::stored))};
  const BenchInputs inputs(work.problems, work.tables, options.direction());
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
      "  fa2 bench --head-dim 128 --causal yes --lengths lognormal:512 --batch 64",
      "FLOPs are 4 * batch * heads * seqlen^2 * head_dim, half of that if causal; with a window,\n"
      "4 * head_dim for each pair of a query and a key that it sees; of packed sequences, their sum. Of the\n"
      "backward 2.5 times that, over the time of its whole call: all kernels, from O and LSE to dQ, dK and "
      "dV.");
  const auto options = std::make_shared<Options>();
  options->matrix.add_to(*verb);
  options->lengths.add_to(*verb);
  verb->add_option("--rounds", options->rounds, "Bursts of every point")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option("--tune", options->tune, "How configurations are chosen (default: FA2_TUNE)")
      ->check(word_check<TuneMode>());
  options->device.add_to(*verb);
  options->backward.add_to(*verb, "Measure the backward: dQ, dK and dV");
  return {verb, [verb, options] { return run(*options, wants_json(*verb)); }};
}

}  // namespace fa2::tools
