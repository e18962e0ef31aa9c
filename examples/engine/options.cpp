// Declares the flags and draws requests.
#include "options.h"

#include <fa2/errors.h>

#include <algorithm>
#include <random>
#include <utility>

namespace example {
namespace {

/// Replaces the sizes that were not given by those that the interpreter serves in seconds.
void make_tiny(const CLI::App& app, Options& options) {
  const auto replace = [&](const char* name, std::int64_t& value, std::int64_t tiny) {
    if (app.count(name) == 0) value = tiny;
  };
  replace("--requests", options.requests, 8);
  replace("--prompt-tokens", options.prompt_tokens, 560);
  replace("--new-tokens", options.new_tokens, 60);
  replace("--batch", options.limits.batch, 4);
  replace("--step-tokens", options.limits.step_tokens, 64);
  replace("--page-size", options.limits.page_size, 8);
}

void add_sizes(CLI::App& app, Options& options) {
  const auto add = [&](const char* name, std::int64_t& value, std::int64_t least, const char* text) {
    return app.add_option(name, value, text)->check(CLI::Range(least, std::int64_t{1} << 20));
  };
  add("--requests", options.requests, 1, "Requests, which all wait when the engine starts")
      ->capture_default_str();
  add("--prompt-tokens", options.prompt_tokens, 1, "Most tokens of a prompt")->capture_default_str();
  add("--new-tokens", options.new_tokens, 1, "Most tokens that follow a prompt")->capture_default_str();
  add("--batch", options.limits.batch, 1, "Most sequences of a step")->capture_default_str();
  add("--step-tokens", options.limits.step_tokens, 1,
      "Token budget of a step: a token of each decoding sequence, then chunks\n"
      "of prompts; at least --batch")
      ->capture_default_str();
  add("--page-size", options.limits.page_size, 1, "Tokens per page of the cache")->capture_default_str();
  add("--pages", options.limits.pages, 1,
      "Pages of each layer's cache; at least those of one longest sequence\n"
      "(default: so many that they run out while sequences decode)");
}

}  // namespace

void add_options(CLI::App& app, Options& options) {
  app.add_option("--model", options.model, "Model whose attention to compute, in few layers")
      ->check(CLI::IsMember(model_names()))
      ->capture_default_str();
  add_sizes(app, options);
  app.add_option("--seed", options.seed, "Seed of weights, requests and the order of pages")
      ->capture_default_str();
  app.add_flag("--tiny", options.tiny, "Sizes that the interpreter serves in seconds, unless they are given");
  app.add_flag("--batch-invariant", options.batch_invariant,
               "Plans whose results do not depend on the rest of the batch");
  app.add_flag("--no-graphs", options.no_graphs, "Launch every step directly, without CUDA graphs");
  app.add_flag("--check", options.check,
               "Serve with --batch-invariant, then fail unless every output has the bits\n"
               "of its sequence alone, logits differ from the whole sequence's by at\n"
               "most 0.5%, tokens only in ties, and all pages are free");
  app.add_option("--json", options.json, "File for steps, times, kernels and what --check found");
}

void complete(const CLI::App& app, Options& options) {
  if (options.tiny) make_tiny(app, options);
  EngineLimits& limits = options.limits;
  limits.longest = options.prompt_tokens + options.new_tokens;
  // Few enough that pages run out while sequences decode.
  const std::int64_t pages =
      options.tiny ? limits.max_pages() * 9 / 8 : limits.batch * limits.max_pages() * 2 / 5;
  if (limits.pages == 0) limits.pages = std::max(limits.max_pages(), pages);
  try {
    require_valid(limits);
  } catch (const fa2::InvalidRequest& error) {
    throw CLI::ValidationError(error.what());
  }
}

std::vector<Request> random_requests(const Options& options) {
  std::mt19937_64 random(options.seed);
  const auto size_below = [&](std::int64_t most) {
    const std::int64_t least = (most + 7) / 8;
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  std::vector<Request> requests;
  for (std::int64_t id = 0; id < options.requests; ++id) {
    Request request{.id = id, .prompt = Tokens(static_cast<std::size_t>(size_below(options.prompt_tokens)))};
    for (std::uint8_t& token : request.prompt) token = static_cast<std::uint8_t>(random());
    request.new_tokens = size_below(options.new_tokens);
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace example
