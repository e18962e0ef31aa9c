// Guarded backward calls.
#include "gpu_backward.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <reference/gradients.h>

#include <algorithm>
#include <cmath>

namespace fa2::test {
namespace {

constexpr std::size_t kGradients = 3;
constexpr const char* kNames[kGradients] = {"dQ", "dK", "dV"};

constexpr std::uint32_t kFloatNaN = 0xffffffff, kFloatPattern = 0xa5a5a5a5;

std::size_t lse_size(const Shape& o) {
  return static_cast<std::size_t>(o.batch * o.heads * o.rows);
}

std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

/// Uploads the values with NaN before and behind them.
void send_guarded(const std::vector<float>& values, DeviceBuffer& buffer) {
  std::vector<float> image(buffer.size() / sizeof(float), std::nanf(""));
  std::copy(values.begin(), values.end(), image.begin() + kGuard);
  buffer.upload(image.data(), buffer.size());
}

float* first_of(const DeviceBuffer& buffer) {
  return static_cast<float*>(buffer.data()) + kGuard;
}

}  // namespace

BackwardLayouts backward_layouts_of(const AttentionProblem& problem, MakeLayout make) {
  const Layouts forward = layouts_of(problem, make);
  return {forward, forward.out, forward.q, forward.k, forward.v};
}

BackwardLayouts packed_layouts_of(const AttentionProblem& problem) {
  BackwardLayouts layouts = backward_layouts_of(problem, guarded_bshd);
  std::int64_t width = 0, rows = 0, first = kGuard;
  for (const Layout* layout : {&layouts.dq, &layouts.dk, &layouts.dv}) {
    width += layout->shape.heads * layout->shape.dim;
    rows = std::max(rows, layout->shape.rows);
  }
  for (Layout* layout : {&layouts.dq, &layouts.dk, &layouts.dv}) {
    const Shape& s = layout->shape;
    *layout = {s, {rows * width, s.dim, width}, first, s.batch * rows * width + 2 * kGuard};
    first += s.heads * s.dim;
  }
  layouts.forward.q = layouts.dq, layouts.forward.k = layouts.dk, layouts.forward.v = layouts.dv;
  layouts.is_packed = true;
  return layouts;
}

template <class Body>
void GuardedBackward::for_each_written_row(std::size_t gradient, const Body& body) const {
  const Layout& layout = layout_of(gradient);
  for (const reference::Sequence& sequence : forward.sequences()) {
    const auto& [entry, begin, count] = gradient == 0 ? sequence.q : sequence.k;
    for (std::int64_t h = 0; h < layout.shape.heads; ++h) {
      for (std::int64_t r = begin; r < begin + count; ++r) {
        body(layout.first + entry * layout.strides.batch + h * layout.strides.head + r * layout.strides.row);
      }
    }
  }
}

GuardedBackward::GuardedBackward(const AttentionProblem& problem)
    : GuardedBackward(problem, backward_layouts_of(problem, guarded_bshd)) {}

GuardedBackward::GuardedBackward(const AttentionProblem& problem, const BackwardLayouts& layouts)
    : forward(problem, layouts.forward),
      layouts_(layouts),
      out_(buffer_for(layouts.forward.out)),
      lse_((lse_size(layouts.forward.out.shape) + 2 * kGuard) * sizeof(float)),
      d_out_(buffer_for(layouts.d_out)),
      d_lse_(lse_.size()),
      d_sinks_((static_cast<std::size_t>(forward.problem.heads_q) + 2 * kGuard) * sizeof(float)) {
  for (std::size_t i = 0; i < (layouts.is_packed ? 1 : kGradients); ++i)
    gradients_.push_back(buffer_for(layout_of(i)));
  randomize(7);
}

void GuardedBackward::randomize(unsigned seed) {
  forward.randomize(seed);
  d_out = random_tensor(layouts_.d_out.shape, forward.problem.dtype, seed + 3);
  if (!d_lse.empty()) give_d_lse();
  upload();
}

void GuardedBackward::give_d_lse() {
  const Shape& o = layouts_.forward.out.shape;
  d_lse = random_tensor({o.batch, o.heads, o.rows, 1}, forward.problem.dtype, 4).values;
}

void GuardedBackward::upload() {
  forward.upload();
  upload_outputs();
  send(d_out, layouts_.d_out, forward.problem.dtype, d_out_);
  send_guarded(d_lse, d_lse_);
  d_sinks_.upload(blank_sinks().data(), d_sinks_.size());
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    gradients_[i].upload(blank(i).data(), gradients_[i].size());
}

/// Computes O and LSE of the forward by the reference and uploads them.
void GuardedBackward::upload_outputs() {
  reference::Result outputs = reference::attention_f64(forward.problem, forward.q, forward.k, forward.v,
                                                       forward.rule(), forward.args.empty_row_lse);
  send(outputs.out, layouts_.forward.out, forward.problem.dtype, out_);
  send_guarded({outputs.lse.begin(), outputs.lse.end()}, lse_);
}

BackwardArgs GuardedBackward::args() const {
  BackwardArgs args = backward_args(forward.args);
  args.forward.out = element(out_, layouts_.forward.out.first);
  args.forward.lse = first_of(lse_);
  args.d_out = element(d_out_, layouts_.d_out.first);
  args.d_lse = d_lse.empty() ? nullptr : first_of(d_lse_);
  args.dq = pointer_to(0);
  args.dk = pointer_to(1);
  args.dv = pointer_to(2);
  args.d_sinks = wanted.d_sinks ? first_of(d_sinks_) : nullptr;
  args.determinism = determinism;
  args.d_out_strides = layouts_.d_out.strides;
  args.dq_strides = layouts_.dq.strides;
  args.dk_strides = layouts_.dk.strides;
  args.dv_strides = layouts_.dv.strides;
  return args;
}

std::string GuardedBackward::complaints() const {
  const GuardedCall& in = forward;
  const std::vector<double> d_sums = doubles(d_lse);
  const auto* const given = d_lse.empty() ? nullptr : &d_sums;
  const auto judge = [&](std::size_t i, const reference::Tensor& ref, const reference::Tensor& baseline) {
    if (!is_wanted(i) || !has_rows(i)) return std::string();
    const reference::Verdict verdict =
        reference::check_gradient(kNames[i], in.problem.dtype, gradient(i), ref, baseline);
    return verdict.ok ? "" : "; " + verdict.message;
  };
  const reference::Gradients ref = reference::gradients_f64(in.problem, in.q, in.k, in.v, d_out, given,
                                                            in.rule()),
                             baseline = reference::gradients_baseline(in.problem, in.q, in.k, in.v, d_out,
                                                                      given, in.rule());
  const std::string all = judge(0, ref.dq, baseline.dq) + judge(1, ref.dk, baseline.dk) +
                          judge(2, ref.dv, baseline.dv) + sinks_complaints(ref.dsinks) + stray_writes();
  return all.empty() ? "" : to_string(in.problem) + all;
}

/// Returns an error limit of dSinks per head: five standard deviations of the error that O's rounding causes
/// in its sum, which no backward can avoid, and float32's.
std::vector<double> sinks_limits(const GuardedBackward& call) {
  const GuardedCall& in = call.forward;
  const reference::Result result =
      reference::attention_f64(in.problem, in.q, in.k, in.v, in.rule(), in.args.empty_row_lse);
  const double unit = in.problem.dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  const double unit_of_lse = reference::lse_unit(in.problem.lse_base);
  std::vector<double> limits;
  for (std::int64_t h = 0; h < in.problem.heads_q; ++h) {
    double squares = 0, magnitudes = 0;
    const double sink = double{in.numbers.at("sinks")[static_cast<std::size_t>(h)]};
    for (const reference::Sequence& sequence : in.sequences()) {
      const auto& [entry, begin, count] = sequence.q;
      for (std::int64_t r = begin; r < begin + count; ++r) {
        const auto row = static_cast<std::size_t>((entry * in.problem.heads_q + h) * result.out.rows + r);
        const double p = std::isinf(sink) ? 0 : std::exp(sink - result.lse[row] / unit_of_lse);
        for (std::int64_t d = 0; d < result.out.dim; ++d) {
          const double term =
              p * double{result.out.at(entry, h, r, d)} * double{call.d_out.at(entry, h, r, d)};
          squares += term * term;
          magnitudes += std::abs(term);
        }
        if (!call.d_lse.empty()) magnitudes += std::abs(p * double{call.d_lse[row]});
      }
    }
    limits.push_back(3 * unit * std::sqrt(squares) + 1e-5 * magnitudes + 1e-6);
  }
  return limits;
}

std::string GuardedBackward::sinks_complaints(const std::vector<double>& ref) const {
  if (!wanted.d_sinks) return "";
  const std::vector<double> limits = sinks_limits(*this);
  const std::vector<float> sums = d_sinks();
  for (std::size_t h = 0; h < sums.size(); ++h) {
    if (!std::isfinite(ref[h]) || std::abs(double{sums[h]} - ref[h]) <= limits[h]) continue;
    return fmt::format("; dSinks FAILED: {} instead of {} of head {}, limit {:.3g}", sums[h], ref[h], h,
                       limits[h]);
  }
  return "";
}

std::vector<float> GuardedBackward::d_sinks() const {
  const std::vector<float> image = downloaded<float>(d_sinks_);
  return {image.begin() + kGuard, image.end() - kGuard};
}

std::vector<std::uint32_t> GuardedBackward::blank_sinks() const {
  std::vector<std::uint32_t> image(d_sinks_.size() / sizeof(float), kFloatPattern);
  std::fill(image.begin() + kGuard, image.end() - kGuard, kFloatNaN);
  return image;
}

std::string GuardedBackward::stray_writes() const {
  std::vector<std::uint32_t> sinks = blank_sinks();
  const std::vector<std::uint32_t> sinks_after = downloaded<std::uint32_t>(d_sinks_);
  if (wanted.d_sinks)
    std::copy(sinks_after.begin() + kGuard, sinks_after.end() - kGuard, sinks.begin() + kGuard);
  if (sinks != sinks_after) return "; memory of no sink's gradient was written";
  for (std::size_t a = 0; a < gradients_.size(); ++a) {
    std::vector<std::uint16_t> before = blank(a);
    const std::vector<std::uint16_t> after = downloaded<std::uint16_t>(gradients_[a]);
    for (std::size_t i = 0; i < kGradients; ++i) {
      if (allocation_of(i) != a || !is_wanted(i)) continue;
      for_each_written_row(i, [&](std::int64_t first) {
        std::copy_n(after.begin() + first, layout_of(i).shape.dim, before.begin() + first);
      });
    }
    const auto stray = std::mismatch(before.begin(), before.end(), after.begin()).first;
    if (stray != before.end()) {
      return fmt::format("; element {} of {} of {}'s memory, which nobody may write, was written",
                         stray - before.begin(), before.size(), layouts_.is_packed ? "dQKV" : kNames[a]);
    }
  }
  return "";
}

const Layout& GuardedBackward::layout_of(std::size_t gradient) const {
  const Layout* const all[kGradients] = {&layouts_.dq, &layouts_.dk, &layouts_.dv};
  return *all[gradient];
}

bool GuardedBackward::is_wanted(std::size_t gradient) const {
  const bool all[kGradients] = {wanted.dq, wanted.dk, wanted.dv};
  return all[gradient];
}

bool GuardedBackward::has_rows(std::size_t gradient) const {
  bool any = false;
  for_each_written_row(gradient, [&](std::int64_t) { any = true; });
  return any;
}

void* GuardedBackward::pointer_to(std::size_t gradient) const {
  if (!is_wanted(gradient)) return nullptr;
  return element(gradients_[allocation_of(gradient)], layout_of(gradient).first);
}

reference::Tensor GuardedBackward::gradient(std::size_t gradient) const {
  return gather(downloaded<std::uint16_t>(gradients_[allocation_of(gradient)]), layout_of(gradient),
                forward.problem.dtype);
}

std::vector<std::uint16_t> GuardedBackward::blank(std::size_t allocation) const {
  std::vector<std::uint16_t> image(gradients_[allocation].size() / sizeof(std::uint16_t), kPatternBits);
  for (std::size_t i = 0; i < kGradients; ++i) {
    if (allocation_of(i) != allocation) continue;
    for_each_written_row(
        i, [&](std::int64_t first) { std::fill_n(image.begin() + first, layout_of(i).shape.dim, kNaNBits); });
  }
  return image;
}

bool are_finite(const reference::Tensor& tensor) {
  return are_finite(tensor, 0, tensor.rows);
}

bool are_finite(const reference::Tensor& tensor, std::int64_t begin, std::int64_t end) {
  bool all = true;
  for_rows(tensor, begin, end, [&](float x) { all &= std::isfinite(x); });
  return all;
}

void expect_close(const char* name, const reference::Tensor& gradient, const reference::Tensor& exact,
                  const reference::Tensor& baseline) {
  const double limit = 2 * reference::errors_of(baseline, exact).largest + 1e-5;
  CHECK_MESSAGE(reference::errors_of(gradient, exact).largest <= limit, name);
}

void expect_gradients(const GuardedBackward& call) {
  const std::string complaints = call.complaints();
  CHECK_MESSAGE(complaints.empty(), complaints);
}

void run_and_expect_gradients(Context& context, const GuardedBackward& call) {
  context.attention_backward(call.forward.problem, call.args());
  expect_gradients(call);
}

}  // namespace fa2::test
