// Compares captures with their specs, one by one.
#include <fmt/format.h>
#include <operation/operands/captured_bytes.h>
#include <operation/rules/check_captures.h>
#include <operation/rules/validate.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace fa2 {
namespace {

/// The captures of the problem's texts; none if this process has not made these, which is an error of the problem.
const std::vector<CaptureSpec>& specs_of(const AttentionProblem& problem) {
  static const std::vector<CaptureSpec> none;
  try {
    return problem.score_text == 0 ? none : score_texts(problem.score_text).captures;
  } catch (const InvalidRequest&) {
    return none;
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
    const bool is_used = i < spec.dimensions;
    if (is_used ? size >= 1 && size <= std::numeric_limits<std::int32_t>::max() : size == 0) continue;
    found.push_back({fmt::format("{}.sizes[{}]", name, i), fmt::format("{}", size),
                     is_used ? std::string("must be in 1..2147483647")
                             : fmt::format("must be 0: the texts capture {} dimensions", spec.dimensions)});
    fit = false;
  }
  return fit;
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
  const int last = spec.dimensions - 1;
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

}  // namespace

void check_captures(Violations& found, const AttentionProblem& problem, const AttentionArgs& args,
                    OperandList operands) {
  const std::vector<CaptureSpec>& specs = specs_of(problem);
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
    if (specs[i].dimensions == CaptureSpec::kNumber)
      check_number(found, name, specs[i], args.captures[i]);
    else
      check_tensor(found, name, specs[i], args.captures[i], operands);
  }
}

void check_captured_residency(Violations& found, const AttentionProblem& problem, const AttentionArgs& args,
                              int device) {
  const std::vector<CaptureSpec>& specs = specs_of(problem);
  if (device == kInterpreterDevice || args.captures == nullptr ||
      args.capture_count != static_cast<std::int64_t>(specs.size()))
    return;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (const void* const data = args.captures[i].data; data != nullptr)
      check_residency(found, "captures." + specs[i].name, data, device);
  }
}

}  // namespace fa2
