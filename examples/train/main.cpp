// Trains a small transformer with fa2, and the same one with materialised attention in float32.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "../model/parallel.h"
#include "../model/program.h"
#include "../model/text.h"
#include "comparison.h"
#include "rank_training.h"

namespace {

using example::Comparison;

struct Options {
  std::vector<std::string> text;
  example::Schedule schedule;
  int ranks = 1;
  bool tiny = false;
  bool check = false;
  std::string json;
};

/// Takes about ten seconds on the interpreter.
constexpr example::Shape kTiny = {
    .layers = 2, .heads_q = 4, .heads_kv = 2, .head_dim = 16, .hidden = 128, .context = 40, .batch = 2};
constexpr int kTinySteps = 30;

/// Prints a row of the table for some twenty of the steps, and the progress of the others to a terminal.
void show(const Comparison& done, int steps) {
  const int step = static_cast<int>(done.tested.losses.size());
  const bool on_terminal = isatty(STDERR_FILENO) == 1;
  if (on_terminal) std::fprintf(stderr, "\r\x1b[K");
  if (step == 1)
    std::printf("step  %7s  %7s  difference\n", done.tested.name.c_str(), done.reference.name.c_str());
  if (step == 1 || step == steps || step % std::max(1, steps / 20) == 0) {
    std::printf("%4d  %7.4f  %7.4f  %10.6f\n", step, static_cast<double>(done.tested.losses.back()),
                static_cast<double>(done.reference.losses.back()),
                static_cast<double>(done.loss_difference()));
    std::fflush(stdout);
  }
  if (on_terminal && step < steps) std::fprintf(stderr, "step %d/%d", step, steps);
}

nlohmann::ordered_json document(const Comparison& done, const Options& options,
                                const example::AttentionPlans& plans, const example::Shape& shape,
                                double seconds) {
  const fa2::Explanation& explanation = plans.forward.explain();
  return {{"facts",
           {{"device", explanation.device},
            {"arch", explanation.arch},
            {"fa2", fa2::version()},
            {"attention", to_string(plans.forward.problem())},
            {"layers", shape.layers},
            {"hidden", shape.hidden},
            {"text", options.text},
            {"seed", options.schedule.seed},
            {"seconds", seconds}}},
          {"gradient_difference", done.gradient_difference},
          {"losses", {{done.tested.name, done.tested.losses}, {done.reference.name, done.reference.losses}}}};
}

Comparison trained(const example::Shape& shape, const example::AttentionPlans& plans,
                   const std::vector<std::uint8_t>& text, const Options& options) {
  const auto show_step = [&](const Comparison& so_far) { show(so_far, options.schedule.steps); };
  if (options.ranks > 1)
    return example::train_on_ranks(options.ranks, shape, plans, text, options.schedule, show_step);
  const example::Workers workers;
  return example::train_both(shape, plans, text, options.schedule, show_step);
}

int run(const CLI::App& app, const Options& options) {
  const example::Shape shape = options.tiny ? kTiny : example::Shape{};
  const std::vector<std::uint8_t> text = example::read_text(options.text, shape);
  std::ofstream json;
  if (!options.json.empty()) json = example::opened(options.json);
  const example::AttentionPlans plans(shape);
  if (options.ranks > 1) example::require_ranks(options.ranks, shape, plans.on_gpu);
  const auto start = std::chrono::steady_clock::now();
  const Comparison done = trained(shape, plans, text, options);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::printf("%.1f s on %s; the first gradients differ by %.2f%%\n", taken.count(),
              plans.forward.explain().device.c_str(), 100 * done.gradient_difference);
  if (json.is_open()) json << document(done, options, plans, shape, taken.count()).dump(1) << std::endl;
  if (!json) throw std::runtime_error("cannot write " + options.json);
  std::vector<std::string> complaints;
  if (options.ranks > 1) complaints = example::complaints_about_ranks(done);
  if (options.check && complaints.empty()) complaints = example::complaints_about(done);
  return example::judge(app, complaints);
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--text", options.text, "Files to learn")->required()->check(CLI::ExistingFile);
  app.add_option("--steps", options.schedule.steps, "Steps of Adam; 30 with --tiny, unless given")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--seed", options.schedule.seed, "Of weights and batches")->capture_default_str();
  app.add_option("--ranks", options.ranks,
                 "Compares with one rank, instead of float32: shards each sequence over\n"
                 "so many GPUs, or threads of the interpreter; at least 2. Fails if\n"
                 "losses differ by more than 0.01 or the first gradients by 1%")
      ->check(CLI::Range(2, 1024))
      ->type_name("P");
  app.add_flag("--tiny", options.tiny, "A model and batches that the interpreter trains in seconds");
  app.add_flag("--check", options.check,
               "Fail unless the losses at the end differ by at most 0.01, the\n"
               "gradients of the first step by 1%, and the loss fell by a fifth");
  app.add_option("--json", options.json,
                 "File for every loss of both; bench/plot_loss.py draws it,\nexcept of ranks");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a transformer over bytes twice, from the same weights on the same batches: with fa2's\n"
      "attention in bfloat16, on the GPU or the interpreter, and with materialised attention in float32.\n"
      "Everything else is computed on the CPU.",
      "fa2_train");
  app.footer(
      "Examples:\n"
      "  fa2_train --text README.md docs/*.md --check --json loss.json\n"
      "  FA2_DEVICE=interpreter fa2_train --text README.md --tiny --ranks 2");
  Options options;
  add_options(app, options);
  return example::run_program(app, argc, argv, [&] {
    if (options.tiny && app.count("--steps") == 0) options.schedule.steps = kTinySteps;
    return run(app, options);
  });
}
