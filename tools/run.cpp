// The options of `fa2 run`.
#include <generator/problem_text.h>
#include <tools/run_call.h>

#include <memory>
#include <tuple>

namespace fa2::tools {
namespace {

void add_inputs(CLI::App& verb, RunOptions& options) {
  verb.add_option("--q", options.q, "Queries; float32 is rounded to --dtype; of rank 3 with --cu-seqlens-q")
      ->required();
  verb.add_option("--k", options.k,
                  "Keys; of rank 3 with --cu-seqlens-k; (pages, keys per page, heads, dim) with --page-table")
      ->required();
  verb.add_option("--v", options.v, "Values")->required();
  verb.add_option(
      "--out", options.out,
      "Output: float16 if all inputs and --dtype are, else float32; NaN in rows of no sequence. With "
      "--backward and --lse an input (default: both are computed)");
  verb.add_option(
      "--lse", options.lse,
      "Log-sum-exp: float32 (batch, heads, seqlen_q), or (heads, total) if packed, to --lse-base. "
      "An output; with --backward an input");
  verb.add_option("--max-logits", options.max_logits,
                  "Output: the largest score of each head that enters the softmax, float32 (batch, heads)");
}

void add_backward(CLI::App& verb, RunOptions& options) {
  auto* backward =
      options.backward.add_to(verb, "Compute gradients from --d-out, not the output: those that have a file");
  const auto add = [&](const char* flag, std::string& path, const char* description) {
    return verb.add_option(flag, path, description)->needs(backward);
  };
  backward->excludes(verb.get_option("--max-logits"));
  backward->needs(add("--d-out", options.d_out, "The gradient of the output, shaped like it"));
  add("--d-lse", options.d_lse, "The gradient of the log-sum-exp, float32 and shaped like it (default: 0)");
  add("--dq", options.dq,
      "Gradient of the queries, in their shape; float16 if all inputs and --dtype are, else float32");
  add("--dk", options.dk, "Gradient of the keys");
  add("--dv", options.dv, "Gradient of the values");
}

/// Notes outputs that would replace an input or another output.
void note_shared_outputs(const RunOptions& o, Mistakes& mistakes) {
  std::vector<NamedFile> outputs = {
      {"--dq", o.dq}, {"--dk", o.dk}, {"--dv", o.dv}, {"--max-logits", o.max_logits}};
  std::vector<NamedFile> inputs = {
      {"--q", o.q}, {"--k", o.k}, {"--v", o.v}, {"--d-out", o.d_out}, {"--d-lse", o.d_lse}};
  for (const auto& [table, path] : o.sequences.files) inputs.push_back({flag_of(table), path});
  for (const auto& [variant, path] : o.variants.files) inputs.push_back({flag_of(variant), path});
  for (const CaptureOption& capture : *o.variants.captures)
    if (!capture.file.empty()) inputs.push_back({capture.flag, capture.file});
  auto& results = o.backward.wanted ? inputs : outputs;
  results.push_back({"--out", o.out});
  results.push_back({"--lse", o.lse});
  for (const Violation& shared : shared_outputs(outputs, inputs))
    mistakes.attempt([&] { throw CLI::ValidationError(to_string(shared)); });
}

/// Notes what is wrong with the options that depend on the direction. CLI11 could check them, but would list
/// them in both help texts.
void note_direction(const RunOptions& options, Mistakes& mistakes) {
  const auto note = [&](bool is_wrong, const CLI::ParseError& error) {
    if (is_wrong) mistakes.attempt([&] { throw error; });
  };
  if (!options.backward.wanted) return note(options.out.empty(), CLI::RequiredError("--out"));
  note(options.dq.empty() && options.dk.empty() && options.dv.empty(),
       CLI::RequiredError("One of --dq, --dk and --dv"));
  note(options.out.empty() && !options.lse.empty(), CLI::RequiresError("--lse", "--out"));
  note(options.lse.empty() && !options.out.empty(), CLI::RequiresError("--out", "--lse"));
}

void add_scales(CLI::App& verb, RunOptions& options) {
  verb.add_option("--scale", options.scale, "Softmax scale (default: 1 / sqrt(head_dim))");
  for (const auto& [flag, scale, of] :
       {std::tuple{"--k-scale", &options.k_scale, "K"}, std::tuple{"--v-scale", &options.v_scale, "V"}})
    verb.add_option(
            flag, *scale,
            fmt::format("With --kv-type: {} is divided by this before it is rounded, and multiplied by "
                        "it where it is read",
                        of))
        ->check(CLI::PositiveNumber);
}

}  // namespace

Verb add_run(CLI::App& app) {
  CLI::App* verb = add_verb(
      app, "run",
      "Compute attention on tensors in .npy files (float16 or float32, rank 4, or 3 if packed, C order), or "
      "its gradients",
      "fa2 run --q q.npy --k k.npy --v v.npy --out o.npy --causal --check\n"
      "  fa2 run --q q.npy --k k.npy --v v.npy --out o.npy --causal --window-left 4096 --softcap 50\n"
      "  fa2 run --q q.npy --k k.npy --v v.npy --kv-type e4m3 --k-scale 0.5 --v-scale 0.25 --out o.npy "
      "--check\n"
      "  fa2 run --q q.npy --k k.npy --v v.npy --cu-seqlens-q cq.npy --cu-seqlens-k ck.npy --out o.npy "
      "--causal\n"
      "  fa2 run --q q.npy --k k.npy --v v.npy --backward --d-out do.npy --dq dq.npy --dk dk.npy --dv dv.npy "
      "--causal --check");
  const auto options = std::make_shared<RunOptions>();
  add_inputs(*verb, *options);
  add_backward(*verb, *options);
  options->mask.add_to(*verb);
  options->variants.add_to(*verb);
  options->sequences.add_to(*verb);
  add_scales(*verb, *options);
  verb->add_option("--layout", options->layout,
                   "Order of dimensions in files: batch (none if packed), seqlen, heads, head_dim")
      ->check(CLI::IsMember({"bshd", "bhsd"}))
      ->capture_default_str();
  add_word(*verb, "--dtype", options->dtype, "Element type to compute in");
  options->device.add_to(*verb);
  verb->add_flag("--check", options->check,
                 "Compare with a float64 reference; exit status 1 if the error is too large");
  return {verb,
          [verb, options] {
            const bool json = wants_json(*verb);
            return options->backward.wanted ? run_backward(*options, json) : run_forward(*options, json);
          },
          [options](Mistakes& mistakes) {
            note_direction(*options, mistakes);
            note_shared_outputs(*options, mistakes);
            mistakes.attempt([&] { options->device.device(); });
          }};
}

}  // namespace fa2::tools
