// Compares captures with their specs, one by one.
#include <core/text_reads.h>
#include <fmt/format.h>
#include <operation/operands/captured_bytes.h>
#include <operation/rules/check_captures.h>
#include <operation/rules/validate.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace fa2 {
namespace {

/// The captures of the problem's texts; none if this process has not made these, which is an error of the problem.
std::span<const CaptureSpec> specs_of(const AttentionProblem& problem) {
  if (problem.score_text == 0) return {};
  try {
    return score_texts(problem.score_text).captures;
  } catch (const InvalidRequest&) {
    return {};
  }
}

bool is_whole_number(double number, double least, double end) {
  return std::floor(number) == number && number >= least && number < end;
}

void check_number(Violations& found, const std::string& name, const CaptureSpec& spec,
                  const ScoreCapture& capture) {
  if (capture.data != nullptr)
    found.push_back({name + ".data", "given", "must be null: the texts capture a number"});
  constexpr double kEndInt = 0x1p31, kEndLong = 0x1p63;
  const bool is_int = spec.type == CaptureType::i32, is_long = spec.type == CaptureType::i64;
  if (is_int && !is_whole_number(capture.number, -kEndInt, kEndInt))
    found.push_back({name + ".number", fmt::format("{}", capture.number), "must be an integer of 32 bits"});
  if (is_long && !is_whole_number(capture.number, -kEndLong, kEndLong))
    found.push_back({name + ".number", fmt::format("{}", capture.number), "must be an integer of 64 bits"});
}

/// Returns whether the sizes can be those of a tensor.
bool check_sizes(Violations& found, const std::string& name, const CaptureSpec& spec,
                 const ScoreCapture& capture) {
  bool fit = true;
  for (int i = 0; i < kMostCaptureDimensions; ++i) {
    const std::int64_t size = capture.sizes[i];
    const bool is_used = i < dimensions_of(spec);
    if (is_used ? size >= 1 && size <= std::numeric_limits<std::int32_t>::max() : size == 0) continue;
    found.push_back({fmt::format("{}.sizes[{}]", name, i), fmt::format("{}", size),
                     is_used
                         ? std::string("must be in 1..2147483647")
                         : fmt::format("must be 0: the texts capture {} dimensions", dimensions_of(spec))});
    fit = false;
  }
  return fit;
}

/// Checks that a tensor has an element per score, where TMA can read it.
void check_per_score(Violations& found, const std::string& name, const CaptureSpec& spec,
                     const ScoreCapture& capture, const AttentionProblem& p) {
  const auto extent = [](std::int64_t of) { return std::max<std::int64_t>(of, 1); };  // no size is 0
  const std::int64_t extents[] = {extent(p.batch), extent(p.heads_q), extent(p.seqlen_q), extent(p.seqlen_k)};
  constexpr const char* kExtents[] = {"batch", "heads_q", "seqlen_q", "seqlen_k"};
  const std::int64_t elements = 16 / bytes_of(spec.type);
  const auto refuse = [&](const char* member, int i, std::int64_t value, std::string rule) {
    found.push_back({fmt::format("{}.{}[{}]", name, member, i), fmt::format("{}", value), std::move(rule)});
  };
  for (int i = 0; i < kMostCaptureDimensions; ++i) {
    const std::int64_t size = capture.sizes[i], stride = capture.strides[i];
    const bool may_be_shared = i < 2;
    if (size != extents[i] && !(may_be_shared && size == 1))
      refuse("sizes", i, size,
             fmt::format("must be {} = {}{}: it has an element per score", kExtents[i], extents[i],
                         may_be_shared ? " or 1" : ""));
    if (size <= 1) continue;
    if (i == kMostCaptureDimensions - 1) {
      if (stride != 1) refuse("strides", i, stride, "must be 1: keys are contiguous");
    } else if (stride % elements != 0 || stride < 0 || (stride == 0 && !may_be_shared)) {
      refuse("strides", i, stride,
             fmt::format("must be a {}multiple of {}, 16 bytes; a capture of 4 dimensions may have any",
                         may_be_shared ? "" : "positive ", elements));
    }
  }
  if (reinterpret_cast<std::uintptr_t>(capture.data) % 16 != 0)
    found.push_back({name + ".data", fmt::format("{}", capture.data),
                     "must be a multiple of 16 bytes; that of a capture of 4 dimensions need not"});
}

void check_tensor(Violations& found, const std::string& name, const CaptureSpec& spec,
                  const ScoreCapture& capture, OperandList operands) {
  const bool fits = check_sizes(found, name, spec, capture);
  if (capture.data == nullptr) {
    found.push_back({name + ".data", "null", "must point to the tensor"});
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(capture.data);
  if (address % static_cast<std::uintptr_t>(bytes_of(spec.type)) != 0)
    found.push_back({name + ".data", fmt::format("{:#x}", address),
                     fmt::format("must be a multiple of {} bytes, one element", bytes_of(spec.type))});
  if (!fits) return;
  const int last = dimensions_of(spec) - 1;
  constexpr Int128 kMost = std::numeric_limits<std::int32_t>::max();
  if (last >= 0) {
    const Int128 stride = Int128{capture.strides[last]} * bytes_of(spec.type);
    if (stride > kMost || stride < -kMost)
      found.push_back({fmt::format("{}.strides[{}]", name, last), fmt::format("{}", capture.strides[last]),
                       "must be less than 2 GiB: that of the last dimension"});
  }
  const ByteRange bytes = captured_bytes(spec, capture);
  if (!bytes.in_address_space()) {
    found.push_back({name + ".strides",
                     fmt::format("{}, {}, {}, {}", capture.strides[0], capture.strides[1], capture.strides[2],
                                 capture.strides[3]),
                     "must keep the tensor inside the 64-bit address space"});
    return;
  }
  for (const Operand& operand : operands) {
    if (!operand.is_written() || operand.is_absent() || operand.data == nullptr) continue;
    if (bytes.touches(range_of(operand)))
      found.push_back({name + ".data", fmt::format("{:#x}", address),
                       fmt::format("must not overlap {}, which the call writes", operand.name)});
  }
}

constexpr const char* kHaveGradients =
    "captures have gradients that are tensors of f16, bf16 or f32 and read by the bias or the mod";

/// The bytes of a call's gradients, one range per capture; empty where there is none.
using GradientRanges = std::array<ByteRange, kMostCaptures>;

std::string name_of_gradient(const CaptureSpec& spec) {
  return "d_captures." + spec.name;
}

/// Checks that the gradient of `spec` does not touch other memory, whose name is `other` followed by `of`.
void check_overlap(Violations& found, const CaptureSpec& spec, const ByteRange& gradient,
                   std::string_view other, std::string_view of, const ByteRange& range) {
  if (gradient.touches(range))
    found.push_back({name_of_gradient(spec), fmt::format("{:#x}", static_cast<std::uint64_t>(gradient.begin)),
                     fmt::format("must not overlap {}{}", other, of)});
}

void check_overlaps(Violations& found, const GradientRanges& gradients, OperandList operands,
                    std::span<const CaptureSpec> specs, const AttentionArgs& args) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (const Operand& operand : operands)
      if (!operand.is_absent() && operand.data != nullptr)
        check_overlap(found, specs[i], gradients[i], operand.name, "", range_of(operand));
    for (std::size_t j = 0; j < i; ++j)
      check_overlap(found, specs[i], gradients[i], "d_captures.", specs[j].name, gradients[j]);
    for (std::size_t j = 0; j < specs.size(); ++j)
      if (args.captures[j].data != nullptr && specs[j].dimensions != CaptureSpec::kNumber)
        check_overlap(found, specs[i], gradients[i], "captures.", specs[j].name,
                      captured_bytes(specs[j], args.captures[j]));
  }
}

/// Returns the gradients that a call gives and that exist.
GradientRanges checked_gradients(Violations& found, const AttentionProblem& problem,
                                 std::span<const CaptureSpec> specs, const BackwardArgs& args) {
  const unsigned differentiable = differentiable_captures(problem.score_text);
  GradientRanges ranges{};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const float* const data = args.d_captures[i];
    if (data == nullptr) continue;
    const auto refuse = [&](std::string value, std::string rule) {
      found.push_back({name_of_gradient(specs[i]), std::move(value), std::move(rule)});
    };
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const ByteRange range = gradient_bytes(specs[i], args.forward.captures[i], data);
    if ((differentiable >> i & 1) == 0) {
      refuse("given", fmt::format("must be null: {}", kHaveGradients));
    } else if (address % sizeof(float) != 0) {
      refuse(fmt::format("{:#x}", address), "must be a multiple of 4 bytes, one float");
    } else if (!range.in_address_space()) {
      refuse(fmt::format("{:#x}", address),
             "must leave room for the capture's sizes in the 64-bit address space");
    } else {
      ranges[i] = range;
    }
  }
  return ranges;
}

}  // namespace

bool fits_per_score(const AttentionProblem& problem, CaptureType type, const ScoreCapture& capture) {
  if (type > CaptureType::f32) return false;
  Violations found;
  check_per_score(found, {}, {"", type, CaptureSpec::kPerScore}, capture, problem);
  return found.empty();
}

void check_capture_gradients(Violations& found, const AttentionProblem& problem, const Gradients& gradients) {
  if (!gradients.d_captures) return;
  if (problem.score_text == 0 || differentiable_captures(problem.score_text) == 0)
    found.push_back({"d_captures", "true",
                     fmt::format("must be false, or score_text have such a capture: {}", kHaveGradients)});
}

void check_captures(Violations& found, const AttentionProblem& problem, const AttentionArgs& args,
                    OperandList operands) {
  const std::span<const CaptureSpec> specs = specs_of(problem);
  if (args.capture_count != static_cast<std::int64_t>(specs.size())) {
    found.push_back({"capture_count", fmt::format("{}", args.capture_count),
                     fmt::format("must be {}: score_text has so many captures", specs.size())});
    return;
  }
  if (specs.empty()) return;
  if (args.captures == nullptr) {
    found.push_back({"captures", "null", "must point to capture_count captures"});
    return;
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::string name = "captures." + specs[i].name;
    if (specs[i].dimensions == CaptureSpec::kNumber) {
      check_number(found, name, specs[i], args.captures[i]);
      continue;
    }
    check_tensor(found, name, specs[i], args.captures[i], operands);
    if (specs[i].dimensions == CaptureSpec::kPerScore)
      check_per_score(found, name, specs[i], args.captures[i], problem);
  }
}

void check_captures(Violations& found, const AttentionProblem& problem, const Gradients& gradients,
                    const BackwardArgs& args, OperandList operands) {
  check_captures(found, problem, args.forward, operands);
  if (gradients.d_captures != (args.d_captures != nullptr))
    return found.push_back(
        {"d_captures", gradients.d_captures ? "null" : "given",
         gradients.d_captures ? "must point to a gradient, or null, for each capture: the plan computes them"
                              : "must be null, or the plan made with Gradients::d_captures"});
  if (!gradients.d_captures) return;
  check_capture_gradients(found, problem, gradients);
  const std::span<const CaptureSpec> specs = specs_of(problem);
  const bool has_captures = args.forward.captures != nullptr &&
                            args.forward.capture_count == static_cast<std::int64_t>(specs.size());
  if (specs.empty() || !has_captures) return;
  if (std::all_of(args.d_captures, args.d_captures + specs.size(),
                  [](float* data) { return data == nullptr; }))
    found.push_back({"d_captures", "only null", "must hold a gradient, or be null: none is asked for"});
  check_overlaps(found, checked_gradients(found, problem, specs, args), operands, specs, args.forward);
}

void check_captured_residency(Violations& found, const AttentionProblem& problem, const AttentionArgs& args,
                              int device) {
  const std::span<const CaptureSpec> specs = specs_of(problem);
  if (device == kInterpreterDevice || args.captures == nullptr ||
      args.capture_count != static_cast<std::int64_t>(specs.size()))
    return;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (const void* const data = args.captures[i].data; data != nullptr)
      check_residency(found, "captures." + specs[i].name, data, device);
  }
}

void check_gradient_residency(Violations& found, const AttentionProblem& problem, const BackwardArgs& args,
                              int device) {
  if (device == kInterpreterDevice || args.d_captures == nullptr) return;
  const std::span<const CaptureSpec> specs = specs_of(problem);
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (args.d_captures[i] != nullptr)
      check_residency(found, "d_captures." + specs[i].name, args.d_captures[i], device);
}

}  // namespace fa2
