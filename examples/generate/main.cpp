// Trains a small transformer, then lets it write several texts at once, with fa2 and paged keys and values.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "../model/parallel.h"
#include "../model/program.h"
#include "../model/text.h"
#include "../model/training.h"
#include "check.h"
#include "generation.h"

namespace {

using example::Check;
using example::Generated;
using example::Shape;
using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> text;
  std::vector<std::string> prompts = {"The ", "fa2 renders ", "Keys and values may lie in pages of any size"};
  std::int64_t tokens = 256;
  std::int64_t page_size = 16;
  int steps = 200;
  std::uint64_t seed = 1;
  bool tiny = false;
  bool check = false;
  std::string json;
};

/// Takes about ten seconds on the interpreter.
constexpr Shape kTiny = {.layers = 2, .heads_q = 4, .heads_kv = 2, .head_dim = 16, .hidden = 128};
constexpr int kTinySteps = 300, kTinyTokens = 32;

/// Returns a shape whose training sequences are as long as the written ones, because the model knows no later positions.
Shape shape_of(const Options& options) {
  Shape shape = options.tiny ? kTiny : Shape{};
  std::size_t longest = 0;
  for (const std::string& prompt : options.prompts) longest = std::max(longest, prompt.size());
  shape.context = static_cast<std::int64_t>(longest) + options.tokens;
  shape.batch = std::max<std::int64_t>(1, (options.tiny ? 160 : 1024) / shape.context);
  return shape;
}

/// Returns sizes with as many pages as all sequences will need.
example::CacheSizes sizes_of(const Options& options, const Shape& shape) {
  example::CacheSizes sizes;
  sizes.sequences = static_cast<std::int64_t>(options.prompts.size());
  sizes.longest = shape.context;
  sizes.page_size = options.page_size;
  for (const std::string& prompt : options.prompts) {
    const auto length = static_cast<std::int64_t>(prompt.size());
    sizes.step_tokens += length;
    sizes.pages += (length + options.tokens + options.page_size - 1) / options.page_size;
  }
  return sizes;
}

/// Trains the model with its materialised attention in float32.
void train(example::Model<float>& model, const Shape& shape, const std::vector<std::uint8_t>& text,
           const Options& options) {
  example::Training training(model, options.steps);
  example::Random random(options.seed);
  for (int step = 1; step <= options.steps; ++step) {
    const float loss = training.step(example::random_batch(text, shape, random));
    if (step == 1 || step == options.steps || step % std::max(1, options.steps / 10) == 0)
      std::fprintf(stderr, "trained %d/%d, loss %.4f\n", step, options.steps, static_cast<double>(loss));
  }
}

std::string text_of(const example::Tokens& tokens) {
  return {tokens.begin(), tokens.end()};
}

/// Returns the tokens decoded per second, without each sequence's first one, which the prompts' pass gives.
double decoded_rate(const Generated& done) {
  const auto tokens = (done.logits[0].rows - 1) * static_cast<std::int64_t>(done.logits.size());
  return tokens == 0 ? 0 : static_cast<double>(tokens) / done.decode_seconds;
}

void show(const Generated& done, const std::optional<Check>& check, const std::string& device) {
  for (std::size_t b = 0; b < done.sequences.size(); ++b)
    std::printf("== %zu\n%s\n", b, text_of(done.sequences[b]).c_str());
  std::printf("== prompts in %.1f ms, kernels made on the way; then %.1f tokens/s of %zu sequences on %s\n",
              1e3 * done.prefill_seconds, decoded_rate(done), done.sequences.size(), device.c_str());
  if (!check) return;
  std::printf("logits differ from full attention's by %.2f%%; tokens by %zu ties\n",
              100 * check->logits_difference, check->ties.size());
  for (const std::string& tie : check->ties) std::printf("  %s\n", tie.c_str());
}

Json document(const Generated& done, const std::optional<Check>& check, const fa2::Explanation& explanation,
              const Options& options) {
  Json json = {{"facts",
                {{"device", explanation.device},
                 {"arch", explanation.arch},
                 {"fa2", fa2::version()},
                 {"attention", to_string(explanation.problem)},
                 {"text", options.text},
                 {"steps", options.steps},
                 {"seed", options.seed}}},
               {"prefill_seconds", done.prefill_seconds},
               {"decode_seconds", done.decode_seconds},
               {"tokens_per_second", decoded_rate(done)}};
  for (std::size_t b = 0; b < done.sequences.size(); ++b)
    json["sequences"].push_back({{"prompt", options.prompts[b]}, {"text", text_of(done.sequences[b])}});
  if (check) {
    json["check"] = {{"logits_difference", check->logits_difference},
                     {"ties", check->ties},
                     {"complaints", check->complaints}};
  }
  return json;
}

int run(const CLI::App& app, const Options& options) {
  const Shape shape = shape_of(options);
  const std::vector<std::uint8_t> text = example::read_text(options.text, shape);
  std::ofstream json;
  if (!options.json.empty()) json = example::opened(options.json);
  example::PagedBatch batch(shape, sizes_of(options, shape), options.seed);
  example::Workers workers;
  example::Model<float> model(shape, options.seed,
                              [&] { return std::make_unique<example::MaterialisedAttention<float>>(shape); });
  train(model, shape, text, options);

  model.replace_attention([&] { return std::make_unique<example::PagedAttention>(batch); });
  std::vector<example::Tokens> prompts;
  for (const std::string& prompt : options.prompts) prompts.emplace_back(prompt.begin(), prompt.end());
  const Generated done = example::generate(model, batch, prompts, options.tokens);
  std::optional<Check> check;
  if (options.check) check = example::check(model, shape, done);
  show(done, check, batch.explain().device);
  // A text may end inside a UTF-8 character.
  if (json.is_open())
    json
        << document(done, check, batch.explain(), options).dump(1, ' ', false, Json::error_handler_t::replace)
        << std::endl;
  if (!json) throw std::runtime_error("cannot write " + options.json);
  return check ? example::judge(app, check->complaints) : EXIT_SUCCESS;
}

void add_options(CLI::App& app, Options& options) {
  const auto has_bytes = [](const std::string& prompt) {
    return prompt.empty() ? "a prompt has at least one byte" : "";
  };
  app.add_option("--text", options.text, "Files to learn")->required()->check(CLI::ExistingFile);
  app.add_option("--prompt", options.prompts, "What a text begins with; several are written at once")
      ->check(CLI::Validator(has_bytes, ""));
  app.add_option("--tokens", options.tokens, "That each prompt is followed by; 32 with --tiny, unless given")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--page-size", options.page_size, "Tokens of a page of the cache")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Steps of Adam; 300 with --tiny, unless given")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of weights, batches and the order of pages")->capture_default_str();
  app.add_flag("--tiny", options.tiny, "A model that the interpreter has write in seconds");
  app.add_flag("--check", options.check,
               "Fail unless the tokens are those of full attention in float32 over the whole\n"
               "sequence, but where its two best logits differ by at most 0.02, and the logits\n"
               "differ by at most 0.5%");
  app.add_option("--json", options.json, "File for texts, times and what --check found");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a transformer over bytes, then has it continue several prompts at once, greedily: new keys\n"
      "and values go into a cache in pages by fa2::append(), and attention is fa2's over the pages, in\n"
      "bfloat16 on the GPU or the interpreter. Everything else is computed in float32 on the CPU.",
      "fa2_generate");
  app.footer(
      "Example:\n  fa2_generate --text README.md docs/*.md --prompt 'A plan ' 'The interpreter ' --check");
  Options options;
  add_options(app, options);
  return example::run_program(app, argc, argv, [&] {
    if (options.tiny && app.count("--steps") == 0) options.steps = kTinySteps;
    if (options.tiny && app.count("--tokens") == 0) options.tokens = kTinyTokens;
    return run(app, options);
  });
}
