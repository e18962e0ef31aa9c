// fa2 run --backward: gradients of attention on tensors from files.
#include <api/explanation.h>
#include <fa2/backward.h>
#include <fmt/format.h>
#include <reference/gradients.h>
#include <tools/flops.h>
#include <tools/run_call.h>

#include <list>
#include <map>
#include <utility>

namespace fa2::tools {
namespace {

/// The fields that belong to one gradient.
struct GradientFields {
  const char* name;
  std::string RunOptions::*path;
  HostTensor RunInputs::*input;
  bool Gradients::*wanted;
  void* BackwardArgs::*data;
  TensorStrides BackwardArgs::*strides;
  TensorStrides AttentionArgs::*strides_of_input;
  reference::Tensor reference::Gradients::*reference;
};

constexpr GradientFields kGradients[] = {
    {.name = "dq",
     .path = &RunOptions::dq,
     .input = &RunInputs::q,
     .wanted = &Gradients::dq,
     .data = &BackwardArgs::dq,
     .strides = &BackwardArgs::dq_strides,
     .strides_of_input = &AttentionArgs::q_strides,
     .reference = &reference::Gradients::dq},
    {.name = "dk",
     .path = &RunOptions::dk,
     .input = &RunInputs::k,
     .wanted = &Gradients::dk,
     .data = &BackwardArgs::dk,
     .strides = &BackwardArgs::dk_strides,
     .strides_of_input = &AttentionArgs::k_strides,
     .reference = &reference::Gradients::dk},
    {.name = "dv",
     .path = &RunOptions::dv,
     .input = &RunInputs::v,
     .wanted = &Gradients::dv,
     .data = &BackwardArgs::dv,
     .strides = &BackwardArgs::dv_strides,
     .strides_of_input = &AttentionArgs::v_strides,
     .reference = &reference::Gradients::dv},
};

/// A requested gradient, and its file.
struct Gradient {
  Gradient(const GradientFields& of, const std::string& to) : fields(of), path(to), file(to) {}

  const GradientFields& fields;
  std::string path;
  OutputFile file;
  HostTensor tensor = {};
};
using GradientList = std::list<Gradient>;  // a list, so that files keep their addresses

/// The gradients of O and LSE, and the forward's results; empty if not given.
struct Upstream {
  HostTensor d_out, out;
  std::vector<float> d_lse, lse;
};

using Verdicts = std::map<std::string, reference::Verdict>;

GradientList gradients_of(const RunOptions& options, Mistakes& mistakes) {
  GradientList gradients;
  for (const GradientFields& fields : kGradients) {
    const std::string& path = options.*fields.path;
    if (!path.empty()) mistakes.attempt([&] { gradients.emplace_back(fields, path); });
  }
  return gradients;
}

void require_shape(const std::string& path, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& expected) {
  if (shape == expected) return;
  throw Error(ErrorCode::invalid_request,
              fmt::format("{}: shape = {}, must be {}", path, shape_text(shape), shape_text(expected)));
}

/// Reads a tensor that must have O's shape.
HostTensor read_output(const std::string& path, const RunOptions& options, const RunInputs& in) {
  HostTensor tensor =
      read_tensor(path, options.file_layout(), element_of(options.dtype), in.q.extents.packed);
  require_shape(path, tensor.extents.shape(tensor.layout),
                output_of(in.problem, in.q).extents.shape(tensor.layout));
  return tensor;
}

std::vector<float> read_lse(const std::string& path, const RunInputs& in) {
  if (path.empty()) return {};
  const std::vector<std::int64_t> shape = in.lse_shape();
  NpyArray array = read_npy(path, {shape.size(), shape.size()});
  require_shape(path, array.shape, shape);
  if (array.is_float16())
    throw Error(ErrorCode::invalid_request, fmt::format("{}: dtype = float16, must be float32", path));
  return std::get<std::vector<float>>(std::move(array.values));
}

Upstream read_upstream(const RunOptions& options, const RunInputs& in, Mistakes& mistakes) {
  Upstream up;
  mistakes.attempt([&] { up.d_out = read_output(options.d_out, options, in); });
  mistakes.attempt([&] { up.d_lse = read_lse(options.d_lse, in); });
  mistakes.attempt([&] { up.lse = read_lse(options.lse, in); });
  if (!options.out.empty()) mistakes.attempt([&] { up.out = read_output(options.out, options, in); });
  return up;
}

/// O and LSE in memory of the current context, from files or computed.
struct ForwardResults {
  DeviceBuffer out, lse;

  float* lse_data() const { return static_cast<float*>(lse.data()); }
};

ForwardResults forward_of(const Upstream& up, const RunInputs& in, const DeviceInputs& inputs,
                          const VariantInputs& variants, const RunOptions& options, const OwnedStream& stream,
                          bool json) {
  if (!options.out.empty()) return {uploaded(up.out), uploaded(up.lse)};
  ForwardResults forward{unwritten(output_of(in.problem, in.q).bits.size() * sizeof(std::uint16_t), stream),
                         unwritten(in.lse_count() * sizeof(float), stream)};
  const AttentionPlan plan = Context::default_context().plan(in.problem, options.device.device().ordinal);
  run_once(launch_of(plan, inputs.args(options, in, variants, forward.out.data(), forward.lse_data())),
           stream, json);
  return forward;
}

/// Computes the gradients. The plan's context must be current.
RunTime compute(const BackwardPlan& plan, const RunInputs& in, const Upstream& up,
                const VariantInputs& variants, const RunOptions& options, GradientList& gradients,
                bool json) {
  const OwnedStream stream;
  const DeviceInputs inputs(in);
  const ForwardResults forward = forward_of(up, in, inputs, variants, options, stream, json);
  const DeviceBuffer d_out = uploaded(up.d_out), d_lse = uploaded(up.d_lse);
  BackwardArgs args =
      backward_args(inputs.args(options, in, variants, forward.out.data(), forward.lse_data()));
  args.d_out = d_out.data();
  args.d_out_strides = args.forward.out_strides;
  if (!up.d_lse.empty()) args.d_lse = static_cast<const float*>(d_lse.data());
  std::list<DeviceBuffer> memory;
  for (Gradient& gradient : gradients) {
    gradient.tensor = in.*gradient.fields.input;
    const bool is_of_queries = gradient.fields.wanted == &Gradients::dq;
    if (is_of_queries ? in.problem.float32_dq : in.problem.float32_dk_dv) gradient.tensor.hold_floats();
    memory.push_back(unwritten(gradient.tensor.memory().size(), stream));
    args.*gradient.fields.data = memory.back().data();
    args.*gradient.fields.strides = args.forward.*gradient.fields.strides_of_input;
  }
  const Launch launch = launch_of(plan, args);
  run_once(launch, stream, json);
  auto buffer = memory.begin();
  for (Gradient& gradient : gradients) {
    buffer->download(gradient.tensor.memory().data(), buffer->size());
    ++buffer;
  }
  const bool is_timed = plan.explain().arch != interpreter_arch().name && !plan.explain().kernels.empty();
  const double flops = kBackwardFlops * flops_of(in.problem, in.tables.pointers(in.problem));
  return is_timed ? measure(launch, flops, stream) : RunTime{};
}

/// Returns verdicts by name; none unless options.check.
Verdicts check(const RunInputs& in, const Upstream& up, const VariantInputs& variants,
               const GradientList& gradients, const RunOptions& options) {
  Verdicts verdicts;
  if (!options.check) return verdicts;
  const AttentionProblem& p = in.problem;
  const reference::Tensor q = in.q.logical(), k = in.k.logical(), v = in.v.logical(),
                          d_out = up.d_out.logical();
  const std::vector<double> d_lse(up.d_lse.begin(), up.d_lse.end());
  const std::vector<double>* const given = d_lse.empty() ? nullptr : &d_lse;
  const reference::ScoreRule rule = rule_of(options, in, variants);
  const reference::Gradients exact = reference::gradients_f64(p, q, k, v, d_out, given, rule),
                             baseline = reference::gradients_baseline(p, q, k, v, d_out, given, rule);
  for (const Gradient& gradient : gradients) {
    const auto member = gradient.fields.reference;
    verdicts[gradient.fields.name] = reference::check_gradient(
        gradient.fields.name, p.dtype, gradient.tensor.logical(), exact.*member, baseline.*member);
  }
  return verdicts;
}

void write(GradientList& gradients, const RunInputs& in, const Upstream& up) {
  const bool as_float32 = in.are_float32() || up.d_out.was_float32 || up.out.was_float32;
  for (Gradient& gradient : gradients) write_tensor(gradient.file, gradient.tensor, as_float32);
  for (Gradient& gradient : gradients) gradient.file.commit();
}

/// Returns one message per verdict, separated by "; ".
std::string messages_of(const Verdicts& verdicts) {
  std::string text;
  for (const auto& [name, verdict] : verdicts) text += (text.empty() ? "" : "; ") + verdict.message;
  return text;
}

bool are_ok(const Verdicts& verdicts) {
  for (const auto& [name, verdict] : verdicts) {
    if (!verdict.ok) return false;
  }
  return true;
}

Json json_of(const BackwardPlan& plan, const RunTime& time, const Verdicts& verdicts) {
  Json json = {{"explanation", Json::parse(to_json(plan.explain()))},
               {"time", tools::json_of(time)},
               {"check", nullptr}};
  if (verdicts.empty()) return json;
  json["check"] = {{"ok", are_ok(verdicts)}};
  for (const auto& [name, verdict] : verdicts) json["check"][name] = tools::json_of(verdict);
  return json;
}

void print_result(const BackwardPlan& plan, const RunTime& time, const Verdicts& verdicts,
                  const GradientList& gradients) {
  const Explanation& e = plan.explain();
  Lines lines = lines_of(e);
  lines.emplace_back("time", text_of(time));
  for (const Gradient& gradient : gradients)
    lines.emplace_back(gradient.fields.name,
                       fmt::format("{} {}", gradient.path,
                                   shape_text(gradient.tensor.extents.shape(gradient.tensor.layout))));
  for (const auto& [name, verdict] : verdicts) lines.emplace_back("check", verdict.message);
  lines.emplace_back("notes", e.notes);
  print(lines);
}

}  // namespace

int run_backward(const RunOptions& options, bool json) {
  Mistakes mistakes;
  GradientList gradients = gradients_of(options, mistakes);
  RunInputs in = read_inputs(options, mistakes);
  const Upstream up = read_upstream(options, in, mistakes);
  const Device& gpu = options.device.device();
  const ScopedContext context(gpu.ordinal);
  const VariantInputs variants(options.variants, in.problem, mistakes);
  mistakes.require_none();
  Gradients wanted{
      .dq = false, .dk = false, .dv = false, .determinism = options.backward.gradients.determinism};
  for (const Gradient& gradient : gradients) wanted.*gradient.fields.wanted = true;
  const BackwardPlan plan = Context::default_context().backward_plan(in.problem, gpu.ordinal, wanted);
  const RunTime time = compute(plan, in, up, variants, options, gradients, json);
  write(gradients, in, up);
  const Verdicts verdicts = check(in, up, variants, gradients, options);
  json ? print_json(json_of(plan, time, verdicts)) : print_result(plan, time, verdicts, gradients);
  return status_of(are_ok(verdicts), messages_of(verdicts));
}

}  // namespace fa2::tools
