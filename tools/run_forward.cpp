// fa2 run: attention on tensors from files.
#include <api/explanation.h>
#include <fmt/format.h>
#include <tools/flops.h>
#include <tools/run_call.h>

#include <utility>

namespace fa2::tools {
namespace {

struct Outputs {
  HostTensor out;
  std::vector<float> lse, max_logits;
  RunTime time;
};

/// Runs the plan, whose context must be current.
Outputs compute(const AttentionPlan& plan, const RunInputs& in, const VariantInputs& variants,
                const RunOptions& options, bool json) {
  Outputs out{.out = output_of(in.problem, in.q), .lse = {}, .max_logits = {}, .time = {}};
  if (in.problem.float32_out) out.out.hold_floats();
  if (options.check || !options.lse.empty()) out.lse.resize(in.lse_count());
  if (in.problem.max_logits)
    out.max_logits.resize(static_cast<std::size_t>(in.problem.batch * in.problem.heads_q));
  const OwnedStream stream;
  const DeviceInputs inputs(in);
  const DeviceBuffer o = unwritten(out.out.memory().size(), stream),
                     lse = unwritten(out.lse.size() * sizeof out.lse[0], stream),
                     logits = unwritten(out.max_logits.size() * sizeof out.max_logits[0], stream);
  AttentionArgs args = inputs.args(options, in, variants, o.data(), static_cast<float*>(lse.data()));
  args.max_logits = static_cast<float*>(logits.data());
  const Launch launch = launch_of(plan, args);
  run_once(launch, stream, json);
  o.download(out.out.memory().data(), o.size());
  lse.download(out.lse.data(), lse.size());
  logits.download(out.max_logits.data(), logits.size());
  const bool is_timed = plan.explain().arch != interpreter_arch().name && !out.out.memory().empty();
  if (is_timed) out.time = measure(launch, flops_of(in.problem, in.tables.pointers(in.problem)), stream);
  return out;
}

std::optional<reference::Verdict> check(const RunInputs& in, const VariantInputs& variants,
                                        const Outputs& out, const RunOptions& options) {
  if (!options.check) return std::nullopt;
  return reference::check(in.problem, in.q.logical(), in.k.logical(), in.v.logical(),
                          rule_of(options, in, variants), out.out.logical(), &out.lse,
                          EmptyRowLse::positive_infinity, in.problem.max_logits ? &out.max_logits : nullptr);
}

/// The files for the results.
struct OutputFiles {
  OutputFiles(const RunOptions& options, Mistakes& mistakes) {
    mistakes.attempt([&] { out.emplace(options.out); });
    if (!options.lse.empty()) mistakes.attempt([&] { lse.emplace(options.lse); });
    if (!options.max_logits.empty()) mistakes.attempt([&] { max_logits.emplace(options.max_logits); });
  }

  void write(const RunInputs& in, const Outputs& results) {
    write_tensor(*out, results.out, in.are_float32());
    if (lse) write_npy(*lse, {in.lse_shape(), results.lse});
    if (max_logits) write_npy(*max_logits, {{in.problem.batch, in.problem.heads_q}, results.max_logits});
    out->commit();
    if (lse) lse->commit();
    if (max_logits) max_logits->commit();
  }

  std::optional<OutputFile> out, lse, max_logits;
};

Json json_of(const AttentionPlan& plan, const Outputs& out,
             const std::optional<reference::Verdict>& verdict) {
  return {{"explanation", Json::parse(to_json(plan.explain()))},
          {"time", tools::json_of(out.time)},
          {"check", verdict ? tools::json_of(*verdict) : Json(nullptr)}};
}

void print_result(const AttentionPlan& plan, const Outputs& out,
                  const std::optional<reference::Verdict>& verdict, const RunOptions& options) {
  const Explanation& e = plan.explain();
  Lines lines = lines_of(e);
  lines.emplace_back("time", text_of(out.time));
  lines.emplace_back("output",
                     fmt::format("{} {}", options.out, shape_text(out.out.extents.shape(out.out.layout))));
  lines.emplace_back("lse", options.lse);
  lines.emplace_back("max logits", options.max_logits);
  lines.emplace_back("check", verdict ? verdict->message : "");
  lines.emplace_back("notes", e.notes);
  print(lines);
}

}  // namespace

int run_forward(const RunOptions& options, bool json) {
  Mistakes mistakes;
  OutputFiles files(options, mistakes);
  RunInputs in = read_inputs(options, mistakes);
  const Device& gpu = options.device.device();
  const ScopedContext context(gpu.ordinal);
  const VariantInputs variants(options.variants, in.problem, mistakes);
  mistakes.require_none();
  const AttentionPlan plan = Context::default_context().plan(in.problem, gpu.ordinal);
  const Outputs out = compute(plan, in, variants, options, json);
  files.write(in, out);
  const auto verdict = check(in, variants, out, options);
  json ? print_json(json_of(plan, out, verdict)) : print_result(plan, out, verdict, options);
  return verdict ? status_of(verdict->ok, verdict->message) : kOk;
}

}  // namespace fa2::tools
