// Computes attention with functions of scores in CUDA C++, and compares it with the same functions in float64.
#include <fa2/attention.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "../model/program.h"
#include "call.h"
#include "functions.h"

namespace {

using namespace example;
using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> names = names_of_all();
  CallOptions call;
  bool tiny = false;
  std::string json;

  static std::vector<std::string> names_of_all() {
    std::vector<std::string> names;
    for (const Function& function : functions({.batch = 1, .heads = 1, .length = 1}))
      names.push_back(function.name);
    return names;
  }
};

/// Takes about a minute on the interpreter, most of it to compile the kernels.
constexpr CallOptions kTiny = {.sizes = {.batch = 3, .heads = 2, .length = 80}, .head_dim = 32};

/// Prints error, limit and time, or dashes for those that are unknown.
void print_direction(const Direction& direction) {
  if (direction.verdicts.empty())
    std::printf(" %8s %8s", "-", "-");
  else
    std::printf(" %8.1e %8.1e", direction.worst().error, direction.worst().limit);
  direction.us > 0 ? std::printf(" %8.1f", direction.us) : std::printf(" %8s", "-");
}

void print_head(bool backward) {
  std::printf("%-17s %8s %8s %8s %8s", "function", "visible", "O error", "limit", "us");
  if (backward) std::printf(" %8s %8s %8s", "dQ dK dV", "limit", "us");
  std::printf("\n");
}

void print_row(const CallResult& result, bool backward) {
  std::printf("%-17s %7.1f%%", result.name.c_str(), 100 * result.visible);
  print_direction(result.forward);
  if (backward) print_direction(result.backward);
  std::printf("\n");
  std::fflush(stdout);
}

Json json_of(const Direction& direction) {
  Json verdicts = Json::array();
  for (const fa2::reference::Verdict& verdict : direction.verdicts)
    verdicts.push_back({{"ok", verdict.ok},
                        {"error", verdict.error},
                        {"limit", verdict.limit},
                        {"message", verdict.message}});
  return {{"us", direction.us}, {"checks", verdicts}};
}

Json document(const std::vector<CallResult>& results, const CallOptions& call) {
  Json json = {{"facts",
                {{"device", results.front().device},
                 {"arch", results.front().arch},
                 {"fa2", fa2::version()},
                 {"batch", call.sizes.batch},
                 {"heads", call.sizes.heads},
                 {"length", call.sizes.length},
                 {"head_dim", call.head_dim}}},
               {"functions", Json::array()}};
  for (const CallResult& result : results) {
    json["functions"].push_back(
        {{"name", result.name}, {"visible", result.visible}, {"forward", json_of(result.forward)}});
    if (call.backward) json["functions"].back()["backward"] = json_of(result.backward);
  }
  return json;
}

void add_complaints(const CallResult& result, std::vector<std::string>& complaints) {
  for (const Direction* const direction : {&result.forward, &result.backward})
    for (const fa2::reference::Verdict& verdict : direction->verdicts)
      if (!verdict.ok) complaints.push_back(result.name + ": " + verdict.message);
}

int run(const CLI::App& app, const Options& options) {
  std::ofstream json;
  if (!options.json.empty()) json = opened(options.json);
  std::vector<CallResult> results;
  std::vector<std::string> complaints;
  print_head(options.call.backward);
  for (const Function& function : functions(options.call.sizes)) {
    if (std::find(options.names.begin(), options.names.end(), function.name) == options.names.end()) continue;
    results.push_back(call(function, options.call));
    print_row(results.back(), options.call.backward);
    add_complaints(results.back(), complaints);
  }
  std::printf("on %s\n", results.front().device.c_str());
  if (json.is_open()) json << document(results, options.call).dump(1) << std::endl;
  if (!json) throw std::runtime_error("cannot write " + options.json);
  return judge(app, complaints);
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("functions", options.names, "Functions to run (default: all)")
      ->check(CLI::IsMember(Options::names_of_all()));
  const auto add = [&](const char* name, std::int64_t& value, std::int64_t least, const char* text) {
    app.add_option(name, value, text)->check(CLI::Range(least, std::int64_t{1} << 20))->capture_default_str();
  };
  add("--batch", options.call.sizes.batch, 1, "Sequences");
  add("--heads", options.call.sizes.heads, 2, "Query heads, two for each key and value head");
  add("--length", options.call.sizes.length, 64, "Queries and keys of a sequence");
  app.add_option("--head-dim", options.call.head_dim, "Columns of Q, K and V")->capture_default_str();
  app.add_flag("--backward", options.call.backward, "Compute gradients too");
  app.add_flag("--tiny", options.tiny,
               "Sizes that the interpreter computes in seconds, unless they are given");
  app.add_flag("--check", options.call.check,
               "Compare with float64, on the CPU, and fail if an error exceeds its limit:\n"
               "twice that of the same maths in bfloat16, thrice for gradients");
  app.add_option("--json", options.json, "File for shares, errors and times");
}

/// Replaces the sizes that were not given.
void make_tiny(const CLI::App& app, CallOptions& call) {
  if (app.count("--batch") == 0) call.sizes.batch = kTiny.sizes.batch;
  if (app.count("--heads") == 0) call.sizes.heads = kTiny.sizes.heads;
  if (app.count("--length") == 0) call.sizes.length = kTiny.sizes.length;
  if (app.count("--head-dim") == 0) call.head_dim = kTiny.head_dim;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Computes attention with functions of scores in CUDA C++, on the GPU or the interpreter: biases,\n"
      "caps and masks, each in a file of examples/scores.",
      "fa2_scores");
  app.footer(
      "Exit status: 0; 1 if a check or anything else failed; 2 for a wrong command line.\n\n"
      "Example:\n  fa2_scores alibi documents --length 4096 --backward --check");
  Options options;
  add_options(app, options);
  return run_program(app, argc, argv, [&] {
    if (options.tiny) make_tiny(app, options.call);
    return run(app, options);
  });
}
