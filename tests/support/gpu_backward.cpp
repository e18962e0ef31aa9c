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

std::size_t lse_size(const Shape& o) {
  return static_cast<std::size_t>(o.batch * o.heads * o.rows);
}

std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

/// NaN before and behind.
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
  return {forward, forward.o, forward.q, forward.k, forward.v};
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
      o_(buffer_for(layouts.forward.o)),
      lse_((lse_size(layouts.forward.o.shape) + 2 * kGuard) * sizeof(float)),
      d_o_(buffer_for(layouts.d_o)),
      d_lse_(lse_.size()) {
  for (std::size_t i = 0; i < (layouts.is_packed ? 1 : kGradients); ++i)
    gradients_.push_back(buffer_for(layout_of(i)));
  randomize(7);
}

void GuardedBackward::randomize(unsigned seed) {
  forward.randomize(seed);
  d_o = random_tensor(layouts_.d_o.shape, forward.problem.dtype, seed + 3);
  if (!d_lse.empty()) give_d_lse();
  upload();
}

void GuardedBackward::give_d_lse() {
  const Shape& o = layouts_.forward.o.shape;
  d_lse = random_tensor({o.batch, o.heads, o.rows, 1}, forward.problem.dtype, 4).values;
}

void GuardedBackward::upload() {
  forward.upload();
  upload_outputs();
  send(d_o, layouts_.d_o, forward.problem.dtype, d_o_);
  send_guarded(d_lse, d_lse_);
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    gradients_[i].upload(blank(i).data(), gradients_[i].size());
}

/// Those of the forward.
void GuardedBackward::upload_outputs() {
  reference::Result outputs = reference::attention_f64(forward.problem, forward.q, forward.k, forward.v,
                                                       forward.rule(), forward.args.empty_row_lse);
  send(outputs.o, layouts_.forward.o, forward.problem.dtype, o_);
  send_guarded({outputs.lse.begin(), outputs.lse.end()}, lse_);
}

BackwardArgs GuardedBackward::args() const {
  BackwardArgs args = backward_args(forward.args);
  args.forward.o = element(o_, layouts_.forward.o.first);
  args.forward.lse = first_of(lse_);
  args.d_o = element(d_o_, layouts_.d_o.first);
  args.d_lse = d_lse.empty() ? nullptr : first_of(d_lse_);
  args.dq = pointer_to(0);
  args.dk = pointer_to(1);
  args.dv = pointer_to(2);
  args.d_o_strides = layouts_.d_o.strides;
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
  const reference::Gradients ref = reference::gradients_f64(in.problem, in.q, in.k, in.v, d_o, given,
                                                            in.rule()),
                             baseline = reference::gradients_baseline(in.problem, in.q, in.k, in.v, d_o,
                                                                      given, in.rule());
  const std::string all = judge(0, ref.dq, baseline.dq) + judge(1, ref.dk, baseline.dk) +
                          judge(2, ref.dv, baseline.dv) + stray_writes();
  return all.empty() ? "" : to_string(in.problem) + all;
}

std::string GuardedBackward::stray_writes() const {
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

void expect_gradients(const GuardedBackward& call) {
  const std::string complaints = call.complaints();
  CHECK_MESSAGE(complaints.empty(), complaints);
}

void run_and_expect_gradients(Context& context, const GuardedBackward& call) {
  context.attention_backward(call.forward.problem, call.args());
  expect_gradients(call);
}

}  // namespace fa2::test
