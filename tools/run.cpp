// fa2 run: attention on tensors from files.
#include <api/explanation.h>
#include <fmt/format.h>
#include <interpreter/block_observer.h>
#include <runtime/device_buffer.h>
#include <tools/measure.h>
#include <tools/problem_options.h>
#include <tools/progress.h>
#include <tools/sequence_options.h>
#include <tools/table.h>
#include <tools/tensor_files.h>
#include <tools/variant_options.h>
#include <tools/verb.h>

#include <cmath>
#include <memory>
#include <optional>

namespace fa2::tools {
namespace {

constexpr int kBursts = 7;

struct Options {
  std::string q, k, v, out, lse;
  MaskOptions mask;
  VariantOptions variants;
  SequenceOptions sequences;
  std::optional<float> scale;
  std::string layout = "bshd";
  DType dtype = DType::f16;
  DeviceOption device;
  bool check = false;

  Layout file_layout() const { return layout == "bshd" ? Layout::bshd : Layout::bhsd; }
};

struct Inputs {
  SequenceTables tables;
  HostTensor q, k, v;
  AttentionProblem problem;
};

struct Outputs {
  HostTensor o;
  std::vector<float> lse;
  double flops = 0;  ///< of one launch, over the pairs of its sequences
  Spread us;         ///< of one launch; 0 if there is nothing to compute
  int launches = 0;  ///< a burst
};

Inputs read_inputs(const Options& options) {
  const Layout layout = options.file_layout();
  const DType dtype = options.dtype;
  Inputs in;
  in.tables = options.sequences.tables();
  const bool packed_q = !in.tables.cu_seqlens_q.empty(), packed_k = !in.tables.cu_seqlens_k.empty();
  in.q = read_tensor(options.q, layout, dtype, packed_q);
  in.k = read_tensor(options.k, layout, dtype, packed_k);
  in.v = read_tensor(options.v, layout, dtype, packed_k);
  in.problem = problem_of(in.q, in.k, in.v, dtype, options.mask.mask(), in.tables);
  require_sound(in.tables, in.problem);
  return in;
}

/// (batch, heads, seqlen_q), or (heads, total_q).
std::vector<std::int64_t> lse_shape(const HostTensor& q) {
  if (q.extents.packed) return {q.extents.heads, q.extents.rows};
  return {q.extents.batch, q.extents.heads, q.extents.rows};
}

DeviceBuffer uploaded(const HostTensor& tensor) {
  const std::size_t bytes = tensor.bits.size() * sizeof tensor.bits[0];
  DeviceBuffer buffer(bytes);
  buffer.upload(tensor.bits.data(), bytes);
  return buffer;
}

void measure(const AttentionPlan& plan, const AttentionArgs& args, const OwnedStream& stream, Outputs& out) {
  if (out.o.bits.empty()) return;
  LaunchTimer timer(plan, args, stream);
  std::vector<double> samples;
  for (int i = 0; i < kBursts; ++i) samples.push_back(timer.burst_us());
  out.us = spread_of(std::move(samples));
  out.launches = timer.launches();
}

/// Shows how far the interpreter has come, which may take minutes.
void launch(const AttentionPlan& plan, const AttentionArgs& args, const OwnedStream& stream, bool json) {
  std::optional<Progress> progress;
  const interpreter::ScopedBlockObserver observer([&](std::size_t done, std::size_t blocks) {
    if (!progress) progress.emplace("interpreting blocks", blocks, json);
    progress->update(done);
  });
  plan.run(args, stream.get());
  stream.synchronize();
}

/// Needs the plan's context current.
Outputs compute(const AttentionPlan& plan, const Inputs& in, const VariantInputs& variants,
                const Options& options, bool json) {
  const AttentionProblem& problem = in.problem;
  Outputs out{.o = output_of(problem, in.q),
              .lse = {},
              .flops = flops_of(problem, in.tables.pointers(problem)),
              .us = {}};
  if (options.check || !options.lse.empty()) {
    const Extents& e = in.q.extents;
    out.lse.resize(static_cast<std::size_t>(e.batch * e.heads * e.rows));
  }
  const OwnedStream stream;
  const DeviceBuffer q = uploaded(in.q), k = uploaded(in.k), v = uploaded(in.v);
  DeviceBuffer o(out.o.bits.size() * sizeof out.o.bits[0]), lse(out.lse.size() * sizeof out.lse[0]);
  o.fill(0xff, stream.get());  // NaN: an element that the kernel leaves out shows
  lse.fill(0xff, stream.get());

  const auto make_args = options.file_layout() == Layout::bshd ? bshd_args : bhsd_args;
  AttentionArgs args =
      make_args(problem, q.data(), k.data(), v.data(), o.data(), static_cast<float*>(lse.data()));
  args.softmax_scale = options.scale;
  variants.add_to(args);
  const DeviceTables tables(in.tables);
  tables.add_to(args, problem);
  launch(plan, args, stream, json);
  o.download(out.o.bits.data(), o.size());
  lse.download(out.lse.data(), lse.size());
  if (plan.explain().arch != interpreter_arch().name) measure(plan, args, stream, out);
  return out;
}

std::optional<reference::Verdict> check(const Inputs& in, const VariantInputs& variants, const Outputs& out,
                                        const Options& options) {
  if (!options.check) return std::nullopt;
  const DType dtype = in.problem.dtype;
  const float scale =
      options.scale ? *options.scale : static_cast<float>(1 / std::sqrt(double(in.problem.head_dim)));
  reference::ScoreRule rule(double{scale});
  rule.numbers = in.tables.pointers(in.problem);
  variants.add_to(rule);
  return reference::check(in.problem, in.q.logical(dtype), in.k.logical(dtype), in.v.logical(dtype), rule,
                          out.o.logical(dtype), &out.lse);
}

bool writes_float32(const Inputs& in) {
  return in.problem.dtype != DType::f16 || in.q.was_float32 || in.k.was_float32 || in.v.was_float32;
}

/// Where the results go.
struct OutputFiles {
  explicit OutputFiles(const Options& options) : o(options.out) {
    if (!options.lse.empty()) lse.emplace(options.lse);
  }

  void write(const Inputs& in, const Outputs& out) {
    write_tensor(o, out.o, in.problem.dtype, writes_float32(in));
    if (lse) write_npy(*lse, {lse_shape(in.q), out.lse});
    o.commit();
    if (lse) lse->commit();
  }

  OutputFile o;
  std::optional<OutputFile> lse;
};

Json json_of(const AttentionPlan& plan, const Outputs& out,
             const std::optional<reference::Verdict>& verdict) {
  Json json = {{"explanation", Json::parse(to_json(plan.explain()))}, {"time", nullptr}, {"check", nullptr}};
  if (out.launches > 0) {  // the interpreter is not timed
    json["time"] = {{"us", out.us.median},  {"p10_us", out.us.p10},
                    {"p90_us", out.us.p90}, {"tflops", tflops(out.flops, out.us.median)},
                    {"bursts", kBursts},    {"launches_per_burst", out.launches}};
  }
  if (verdict) {
    json["check"] = {{"ok", verdict->ok},
                     {"error", verdict->error},
                     {"baseline_error", verdict->baseline_error},
                     {"limit", verdict->limit},
                     {"lse_error", verdict->lse_error},
                     {"message", verdict->message}};
  }
  return json;
}

/// Nothing for the interpreter.
std::string time_text(const Outputs& out) {
  if (out.launches == 0) return {};
  return fmt::format("{:.2f} us, {:.1f} TFLOP/s (median of {} bursts of {} launches)", out.us.median,
                     tflops(out.flops, out.us.median), kBursts, out.launches);
}

void print_result(const AttentionPlan& plan, const Outputs& out,
                  const std::optional<reference::Verdict>& verdict, const Options& options) {
  const Explanation& e = plan.explain();
  const KernelReport& kernel = e.kernels.front();
  fmt::print("{}",
             text(Lines{
                 {"problem", to_string(e.problem)},
                 {"device", fmt::format("{} ({})", e.device, e.arch)},
                 {"config", to_string(kernel.config)},
                 {"chosen", fmt::format("{}: {}", to_string(kernel.config_origin), kernel.config_reason)},
                 {"kernel", fmt::format("{}, ready in {:.1f} ms", to_string(kernel.origin), kernel.load_ms)},
                 {"time", time_text(out)},
                 {"output", fmt::format("{} {}", options.out, shape_text(out.o.extents.shape(out.o.layout)))},
                 {"lse", options.lse},
                 {"check", verdict ? verdict->message : ""},
                 {"notes", e.notes},
             }));
}

int run(const Options& options, bool json) {
  OutputFiles files(options);
  Inputs in = read_inputs(options);
  const Device& gpu = options.device.device();
  const ScopedContext context(gpu.ordinal);
  const VariantInputs variants(options.variants, in.problem);
  const AttentionPlan plan = Context::default_context().plan(in.problem, gpu.ordinal);
  const Outputs out = compute(plan, in, variants, options, json);
  files.write(in, out);
  const auto verdict = check(in, variants, out, options);
  json ? print_json(json_of(plan, out, verdict)) : print_result(plan, out, verdict, options);
  if (!verdict || verdict->ok) return kOk;
  std::fflush(stdout);
  fmt::print(stderr, "fa2 run: {}\n", verdict->message);
  return kFailed;
}

}  // namespace

Verb add_run(CLI::App& app) {
  CLI::App* verb = add_verb(
      app, "run",
      "Compute attention on tensors in .npy files (float16 or float32, rank 4, or 3 if packed, C order)",
      "fa2 run --q q.npy --k k.npy --v v.npy --out o.npy --causal --check\n"
      "  fa2 run --q q.npy --k k.npy --v v.npy --out o.npy --causal --window-left 4096 --softcap 50\n"
      "  fa2 run --q q.npy --k k.npy --v v.npy --cu-seqlens-q cq.npy --cu-seqlens-k ck.npy --out o.npy "
      "--causal");
  const auto options = std::make_shared<Options>();
  verb->add_option("--q", options->q, "Queries; float32 is rounded to --dtype")->required();
  verb->add_option("--k", options->k, "Keys")->required();
  verb->add_option("--v", options->v, "Values")->required();
  verb->add_option("--out", options->out,
                   "Output: float16 if all inputs and --dtype are, else float32; NaN in rows of no sequence")
      ->required();
  verb->add_option(
      "--lse", options->lse,
      "Log-sum-exp: float32 (batch, heads, seqlen_q), or (heads, total) if packed, natural logarithm");
  options->mask.add_to(*verb);
  options->variants.add_to(*verb);
  options->sequences.add_to(*verb);
  verb->add_option("--scale", options->scale, "Softmax scale (default: 1 / sqrt(head_dim))");
  verb->add_option("--layout", options->layout,
                   "Dimensions of the files: batch (none if packed), seqlen, heads, head_dim by letter")
      ->check(CLI::IsMember({"bshd", "bhsd"}))
      ->capture_default_str();
  add_word(*verb, "--dtype", options->dtype, "Element type to compute in");
  options->device.add_to(*verb);
  verb->add_flag("--check", options->check,
                 "Compare with a float64 reference; exit status 1 if the error is too large");
  return {verb, [verb, options] { return run(*options, wants_json(*verb)); }};
}

}  // namespace fa2::tools
