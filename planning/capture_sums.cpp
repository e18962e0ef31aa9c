// Sizes of gradients follow from the call's captures, so that no plan can have room for their sums in its workspace.
#include <generator/kernels/score_tile_rules.h>
#include <generator/key_map_layout.h>
#include <operation/operands/captured_bytes.h>
#include <planning/capture_sums.h>
#include <runtime/fill.h>

#include <algorithm>
#include <cstddef>
#include <templates/attention/common/params.cuh>

namespace fa2 {
namespace {

/// Returns whether a step of the plan stores all elements of a capture's gradient.
bool stores_all(const Plan& plan, const CaptureSpec& spec, const ScoreCapture& capture) {
  const AttentionProblem& p = plan.problem;
  const bool is_shared = capture.sizes[0] == 1 || capture.sizes[1] == 1;
  if (spec.dimensions != CaptureSpec::kPerScore || is_shared) return false;
  if (p.varlen || has_edges(p) || has_mask_text(p)) return false;
  return std::ranges::any_of(
      plan.steps, [&](const Step& step) { return score_tile_rules::adds_bias_gradient(p, step.config); });
}

}  // namespace

std::vector<Step> bitwise_capture_steps(const Step& step) {
  std::vector<Step> steps;
  for (const CaptureSums kind : {CaptureSums::largest, CaptureSums::fixed_point, CaptureSums::rounded}) {
    steps.push_back(step);
    steps.back().constants.put(offsetof(CaptureGradientParams, kind), kind);
  }
  return steps;
}

std::optional<StreamMemory> start_capture_gradients(const Plan& plan, Call& call, Stream stream) {
  if (!plan.gradients.d_captures || plan.problem.batch == 0) return std::nullopt;
  const BackwardArgs& args = call.args.as<BackwardArgs>();
  const std::vector<CaptureSpec>& specs = score_texts(plan.problem.score_text).captures;
  std::size_t elements = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    float* const data = args.d_captures[i];
    if (data == nullptr) continue;
    const ByteRange range = gradient_bytes(specs[i], args.forward.captures[i], data);
    const auto bytes = static_cast<std::size_t>(range.end - range.begin);
    if (!stores_all(plan, specs[i], args.forward.captures[i])) fill_zeros(data, bytes, stream);
    elements += bytes / sizeof(float);
  }
  if (plan.gradients.determinism != Determinism::bitwise) return std::nullopt;
  StreamMemory sums = plan.scratch->take(elements * sizeof(long long), stream);
  call.capture_sums = {static_cast<std::byte*>(sums.data()), elements * sizeof(long long)};
  fill_zeros(sums.data(), call.capture_sums.size(), stream);
  return sums;
}

}  // namespace fa2
