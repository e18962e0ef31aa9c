// Fills in CaptureParams.
#include <fa2/backward.h>
#include <generator/kernel_kind.h>
#include <operation/operands/captured_bytes.h>
#include <planning/captures.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fa2 {
namespace {

/// Returns the value as the type in which the kernel reads it.
std::int64_t number_of(const CaptureSpec& spec, double number) {
  if (spec.type == CaptureType::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(number));
  if (spec.type == CaptureType::boolean) return number != 0 ? 1 : 0;
  return static_cast<std::int64_t>(number);
}

CaptureParams params_of(const CaptureSpec& spec, const ScoreCapture& capture) {
  CaptureParams params{};
  if (spec.dimensions == CaptureSpec::kNumber) {
    params.number = number_of(spec, capture.number);
    return params;
  }
  params.data = capture.data;
  std::ranges::copy(capture.strides, params.strides);
  std::ranges::transform(capture.sizes, params.sizes,
                         [](std::int64_t size) { return static_cast<int>(size); });
  return params;
}

/// Returns the captures of a call of attention, which has as many as its problem's texts.
std::span<const ScoreCapture> captures_of(const Call& call) {
  const BackwardArgs* const backward = call.args.find<BackwardArgs>();
  const AttentionArgs& args = backward != nullptr ? backward->forward : call.args.as<AttentionArgs>();
  return {args.captures, static_cast<std::size_t>(args.capture_count)};
}

}  // namespace

void set_captures(Step& step, const AttentionProblem& problem) {
  const KernelKind& kind = kind_of(step.config);
  if (problem.score_text != 0 && (kind.reads == nullptr || kind.reads("score_text")))
    step.captures = score_texts(problem.score_text).captures;
}

void insert_captures(ParamsBuffer& params, const Step& step, const Call& call) {
  std::array<CaptureParams, kMostCaptures> captures;
  std::ranges::transform(step.captures, captures_of(call), captures.begin(), params_of);
  params.insert(step.captures_at, captures.data(), step.captures.size() * sizeof(CaptureParams));
}

void add_captured_memory(std::vector<MemoryRange>& ranges, const Step& step, const Call& call) {
  for (std::size_t i = 0; i < step.captures.size(); ++i) {
    const CaptureSpec& spec = step.captures[i];
    if (spec.dimensions == CaptureSpec::kNumber) continue;
    const ByteRange bytes = captured_bytes(spec, captures_of(call)[i]);
    ranges.push_back({spec.name, reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(bytes.begin)),
                      static_cast<std::size_t>(bytes.end - bytes.begin)});
  }
}

}  // namespace fa2
