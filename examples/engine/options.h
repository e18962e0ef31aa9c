// The command line, and the requests that it asks for.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "model_shapes.h"
#include "scheduler.h"

namespace example {

struct Options {
  std::string model = model_names()[0];
  std::int64_t requests = 64;
  std::int64_t prompt_tokens = 2048;  ///< most tokens of a prompt
  std::int64_t new_tokens = 128;      ///< most tokens that follow a prompt
  EngineLimits limits = {.batch = 32, .step_tokens = 512, .longest = 0, .page_size = 16, .pages = 0};
  std::uint64_t seed = 1;
  bool tiny = false;
  bool check = false;
  bool batch_invariant = false;
  bool no_graphs = false;
  std::string json;  ///< empty: no file

  ModelShape shape() const { return tiny ? example::tiny(model_shape(model)) : model_shape(model); }
};

void add_options(CLI::App& app, Options& options);

/// Derives the sizes that were not given. @throws CLI::ValidationError that lists every limit which is wrong.
void complete(const CLI::App& app, Options& options);

/// Returns requests with random prompts. Their lengths are uniform between an eighth of the most and the most.
std::vector<Request> random_requests(const Options& options);

}  // namespace example
