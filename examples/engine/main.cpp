// Serves random requests by continuous batching over a paged cache, with the attention of real models.
#include <fa2/attention.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../model/parallel.h"
#include "../model/program.h"
#include "check.h"
#include "engine.h"
#include "kernel_log.h"
#include "options.h"
#include "report.h"

namespace {

using namespace example;

/// Serves all requests.
void serve(Engine& engine, const Scheduler& scheduler, Report& report) {
  const auto start = std::chrono::steady_clock::now();
  while (scheduler.has_work()) report.add(engine.step());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.preemptions = scheduler.preemptions();
}

/// Serves and checks all requests. Fills in the report, and returns complaints.
std::vector<std::string> served(const Options& options, Report& report) {
  Workers workers;
  Scheduler scheduler(options.limits, options.seed);
  for (Request& request : random_requests(options)) scheduler.submit(std::move(request));

  KernelLog log;
  fa2::ContextOptions settings;
  settings.tune = fa2::TuneMode::stored;  // no measurements next to the steps
  fa2::Context context(settings);
  ThinModel model(options.shape(), options.seed);
  StepAttention attention(context, options.shape(), options.limits, options.check || options.batch_invariant,
                          options.no_graphs ? DecodeMode::direct : DecodeMode::graphs);
  report.describe(attention, log);

  Engine engine(scheduler, model, attention);
  if (options.check) engine.keep_traces();
  serve(engine, scheduler, report);
  std::vector<std::string> complaints = report.complaints_about_kernels(log);
  if (!options.check) return complaints;
  report.check = check(context, options.shape(), options.limits, model, scheduler, engine.traces());
  complaints.insert(complaints.end(), report.check->complaints.begin(), report.check->complaints.end());
  return complaints;
}

int run(const CLI::App& app, const Options& options) {
  std::ofstream json;
  if (!options.json.empty()) json = opened(options.json);
  Report report;
  const std::vector<std::string> complaints = served(options, report);
  show(report);
  if (json.is_open()) json << document(report, options).dump(1) << std::endl;
  if (!json) throw std::runtime_error("cannot write " + options.json);
  return judge(app, complaints);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Serves random requests by continuous batching: each step packs one token of every decoding\n"
      "sequence and chunks of prompts into one batch, stores their keys and values in pages by\n"
      "fa2::append(), and attends over the pages. Heads, windows and caps are those of real models; the\n"
      "weights are random, and everything but attention runs in float32 on the CPU.",
      "fa2_engine");
  app.footer(
      "Exit status: 0; 1 if a check or anything else failed; 2 for a wrong command line.\n\n"
      "Example:\n  fa2_engine --model gemma-2-9b --requests 100 --check --json steps.json");
  Options options;
  add_options(app, options);
  return run_program(app, argc, argv, [&] {
    complete(app, options);
    return run(app, options);
  });
}
