// Gradients of tensors that texts of scores capture, and what they must be.
#pragma once

#include <core/float_bits.h>
#include <doctest/doctest.h>
#include <fa2/backward.h>
#include <fa2/score_text.h>
#include <reference/gradients.h>
#include <runtime/device_buffer.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "captures.h"
#include "gpu_backward.h"

namespace fa2::test {

using At = reference::ScorePosition;

/// Takes what one read of a capture contributes: the capture, its element in row-major order, and the derivative of the score.
using Take = std::function<void(std::size_t capture, std::int64_t element, double slope)>;

struct CapturedTensor {
  CaptureType type;
  std::vector<std::int64_t> sizes;
  std::function<double(std::int64_t)> value;  ///< of an element
  bool is_wanted = true;

  std::int64_t count() const {
    std::int64_t product = 1;
    for (const std::int64_t size : sizes) product *= size;
    return product;
  }
  /// Returns an element as its type has it.
  double at(std::int64_t i) const {
    const auto wide = static_cast<float>(value(i));
    if (type == CaptureType::f16) return double{from_bits(to_bits(wide, DType::f16), DType::f16)};
    if (type == CaptureType::bf16) return double{from_bits(to_bits(wide, DType::bf16), DType::bf16)};
    return double{wide};
  }
};

inline constexpr std::uint32_t kFloatPattern = 0xa5a5a5a5, kFloatNaN = 0xffffffff;
inline constexpr std::size_t kGuardFloats = 16;

struct CaptureCase {
  const char* name;
  ScoreText bias = {}, mod = {}, mask = {};
  std::vector<CapturedTensor> tensors;  ///< whose names are a, b, c ...
  reference::ScoreFunctions functions;
  std::function<void(double score, const At&, const Take&)> derivatives;
  std::size_t guard = kGuardFloats;  ///< floats around each gradient, which decide its alignment
};

/// The captures of a case, and memory for their gradients between guards.
class CapturesWithGradients {
 public:
  explicit CapturesWithGradients(const std::vector<CapturedTensor>& tensors, std::size_t guard = kGuardFloats)
      : tensors_(tensors), guard_(guard) {
    for (const CapturedTensor& tensor : tensors) {
      add(tensor);
      DeviceBuffer& buffer = gradients_.emplace_back(4 * (count_of(tensor) + 2 * guard));
      std::vector<std::uint32_t> image(buffer.size() / 4, kFloatPattern);
      if (tensor.is_wanted)
        std::fill_n(image.begin() + static_cast<std::ptrdiff_t>(guard), count_of(tensor), kFloatNaN);
      buffer.upload(image.data(), buffer.size());
      pointers_.push_back(tensor.is_wanted ? static_cast<float*>(buffer.data()) + guard : nullptr);
    }
  }

  void give_to(AttentionArgs& args) const { captures_.give_to(args); }
  float* const* pointers() const { return pointers_.data(); }

  /// Returns a gradient. CHECKs that nothing around it was written, and nothing at all of one that is not wanted.
  std::vector<float> gradient(std::size_t i) const {
    const std::vector<std::uint32_t> bits = downloaded<std::uint32_t>(gradients_[i]);
    const auto guarded = [&](auto begin, auto end) {
      return std::all_of(begin, end, [](std::uint32_t word) { return word == kFloatPattern; });
    };
    const std::size_t begin = tensors_[i].is_wanted ? guard_ : bits.size() / 2,
                      end = tensors_[i].is_wanted ? bits.size() - guard_ : bits.size() / 2;
    CHECK(guarded(bits.begin(), bits.begin() + static_cast<std::ptrdiff_t>(begin)));
    CHECK(guarded(bits.begin() + static_cast<std::ptrdiff_t>(end), bits.end()));
    const std::vector<float> floats = downloaded<float>(gradients_[i]);
    return {floats.begin() + static_cast<std::ptrdiff_t>(begin),
            floats.begin() + static_cast<std::ptrdiff_t>(end)};
  }

 private:
  static std::size_t count_of(const CapturedTensor& tensor) {
    return static_cast<std::size_t>(tensor.count());
  }

  void add(const CapturedTensor& tensor) {
    if (tensor.type == CaptureType::f32) return captures_.add(values_of<float>(tensor), tensor.sizes);
    captures_.add(values_of<std::uint16_t>(tensor), tensor.sizes);
  }

  template <class Value>
  static std::vector<Value> values_of(const CapturedTensor& tensor) {
    std::vector<Value> values;
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      const auto wide = static_cast<float>(tensor.at(i));
      if constexpr (std::is_same_v<Value, float>)
        values.push_back(wide);
      else
        values.push_back(to_bits(wide, tensor.type == CaptureType::f16 ? DType::f16 : DType::bf16));
    }
    return values;
  }

  const std::vector<CapturedTensor>& tensors_;
  std::size_t guard_;
  Captures captures_;
  std::vector<DeviceBuffer> gradients_;
  std::vector<float*> pointers_;
};

/// What each row of queries contributes to an element of a gradient: by element, and by row.
using Parts = std::map<std::int64_t, std::map<std::int64_t, double>>;

/// Returns the gradients of a case's captures, by the reference or by its baseline.
template <class Gradients>
std::vector<Parts> parts_of(const CaptureCase& of, GuardedBackward& call, const Gradients& gradients) {
  std::vector<Parts> parts(of.tensors.size());
  std::mutex mutex;
  call.forward.functions.take_gradient = [&](double score, const At& at, double gradient) {
    const std::lock_guard lock(mutex);
    const std::int64_t row = (at.batch * 1000 + at.head) * 100000 + at.query;
    of.derivatives(score, at, [&](std::size_t capture, std::int64_t element, double slope) {
      parts[capture][element][row] += gradient * slope;
    });
  };
  const std::vector<double> d_lse(call.d_lse.begin(), call.d_lse.end());
  const GuardedCall& in = call.forward;
  gradients(in.problem, in.q, in.k, in.v, call.d_out, call.d_lse.empty() ? nullptr : &d_lse, in.rule());
  call.forward.functions.take_gradient = {};
  return parts;
}

inline double sum_of(const std::map<std::int64_t, double>& rows) {
  double sum = 0;
  for (const auto& [row, part] : rows) sum += part;
  return sum;
}

/// Returns the error of the baseline in an element, and the standard deviation of that error: O is rounded, so that each row has an
/// error, which no backward can avoid.
inline std::pair<double, double> errors_of(const Parts& ref, const Parts& baseline, std::int64_t element) {
  if (!ref.contains(element)) return {0, 0};
  double error = 0, squares = 0;
  for (const auto& [row, part] : ref.at(element)) {
    const auto& rows = baseline.at(element);
    const double off = (rows.contains(row) ? rows.at(row) : 0) - part;
    error += off;
    squares += off * off;
  }
  return {std::abs(error), std::sqrt(squares)};
}

/// CHECKs one gradient, by the contract of other gradients, or where its elements sum over many rows by five standard deviations.
inline void expect_gradient(const std::vector<float>& made, const Parts& ref, const Parts& baseline) {
  double largest = 0, worst = 0;
  for (const auto& [element, rows] : ref) {
    largest = std::max(largest, std::abs(sum_of(rows)));
    worst = std::max(worst, errors_of(ref, baseline, element).first);
  }
  CHECK(largest > 0.01);
  for (std::size_t e = 0; e < made.size(); ++e) {
    const auto element = static_cast<std::int64_t>(e);
    const double expected = ref.contains(element) ? sum_of(ref.at(element)) : 0;
    const double error = std::abs(double{made[e]} - expected);
    const double limit =
        std::max(3 * worst, 5 * errors_of(ref, baseline, element).second) + 1e-5 * (1 + largest);
    if (error <= limit) continue;
    FAIL_CHECK("element ", e, " is ", made[e], " instead of ", expected, ", limit ", limit, ", largest ",
               largest);
    return;
  }
}

/// Returns the gradients of a case's captures by one call that `run` makes; empty ones where none is wanted.
template <class Run>
std::vector<std::vector<float>> gradients_by(const Run& run, const CaptureCase& of, GuardedBackward& call) {
  const CapturesWithGradients captures(of.tensors, of.guard);
  call.forward.functions = of.functions;
  captures.give_to(call.forward.args);
  call.upload();
  BackwardArgs args = call.args();
  args.d_captures = captures.pointers();
  run(args);
  std::vector<std::vector<float>> gradients;
  for (std::size_t i = 0; i < of.tensors.size(); ++i) gradients.push_back(captures.gradient(i));
  return gradients;
}

/// CHECKs all gradients of one call that `run` makes.
template <class Run>
void expect_gradients_of(const Run& run, const CaptureCase& of, GuardedBackward& call) {
  const std::vector<std::vector<float>> made = gradients_by(run, of, call);
  const std::string name = of.name;
  INFO(name);
  CHECK(call.complaints() == "");
  const std::vector<Parts> ref = parts_of(of, call, reference::gradients_f64),
                           baseline = parts_of(of, call, reference::gradients_baseline);
  for (std::size_t i = 0; i < of.tensors.size(); ++i) {
    CHECK(made[i].empty() == !of.tensors[i].is_wanted);
    if (of.tensors[i].is_wanted) expect_gradient(made[i], ref[i], baseline[i]);
  }
}

/// Returns what makes a call by a Context.
inline auto by(Context& context, const GuardedBackward& call) {
  return [&](const BackwardArgs& args) { context.attention_backward(call.forward.problem, args); };
}

inline void expect_gradients(Context& context, const CaptureCase& of, GuardedBackward& call) {
  expect_gradients_of(by(context, call), of, call);
}

}  // namespace fa2::test
