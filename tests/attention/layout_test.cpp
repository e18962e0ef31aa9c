// Memory layouts: any strides and alignment. Nothing outside of the tensors' elements is read or written.
#include <api/context.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <runtime/device.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns the layout of one third of a packed (batch, seqlen, 3, heads, dim).
Layout packed_qkv(const Shape& s) {
  return guarded(s, {s.rows * 3 * s.heads * s.dim, s.dim, 3 * s.heads * s.dim});
}

/// Returns a layout with a gap after every row, head and batch.
Layout padded(const Shape& s, std::int64_t gap) {
  const std::int64_t row = s.dim + gap, head = (s.rows + 5) * row;
  return guarded(s, {s.heads * head + gap, head, row});
}
Layout padded_by_16_bytes(const Shape& s) {
  return padded(s, 8);
}
Layout padded_by_3_elements(const Shape& s) {
  return padded(s, 3);
}

Layout reversed(const Shape& s) {
  return guarded(s, {-s.rows * s.heads * s.dim, -s.dim, -s.heads * s.dim});
}
Layout reversed_rows(const Shape& s) {
  return guarded(s, {s.heads * s.rows * s.dim, s.rows * s.dim, -s.dim});
}

/// Returns a layout in which all heads and batches share one head.
Layout broadcast_heads(const Shape& s) {
  return guarded(s, {0, 0, s.dim});
}
/// Returns a layout in which all rows of a head share one row.
Layout broadcast_rows(const Shape& s) {
  return guarded(s, {s.heads * s.dim, s.dim, 0});
}

struct Kind {
  const char* name;
  MakeLayout q, k, v, out;
  RowAlignment holds = RowAlignment::bytes16;
};

constexpr auto kAnyOrder = RowAlignment::bytes16_any_order;
constexpr auto kElement = RowAlignment::element;

const std::vector<Kind> kKinds = {
    {"(batch, seqlen, heads, dim)", guarded_bshd, guarded_bshd, guarded_bshd, guarded_bshd},
    {"(batch, heads, seqlen, dim)", guarded_bhsd, guarded_bhsd, guarded_bhsd, guarded_bhsd},
    {"packed", packed_qkv, packed_qkv, packed_qkv, packed_qkv},
    {"padded", padded_by_16_bytes, padded_by_16_bytes, padded_by_16_bytes, padded_by_16_bytes},
    {"reversed", reversed, reversed, reversed, reversed, kAnyOrder},
    {"broadcast heads", broadcast_heads, broadcast_heads, broadcast_heads, guarded_bhsd, kAnyOrder},
    {"broadcast rows", broadcast_rows, broadcast_rows, broadcast_rows, guarded_bshd, kAnyOrder},
    {"mixed", packed_qkv, reversed_rows, padded_by_16_bytes, reversed, kAnyOrder},
    {"padded, misaligned", padded_by_3_elements, padded_by_3_elements, padded_by_3_elements,
     padded_by_3_elements, kElement},
    {"shifted by one element", misaligned, misaligned, misaligned, misaligned, kElement},
    {"only O misaligned", guarded_bhsd, guarded_bhsd, guarded_bhsd, padded_by_3_elements, kElement},
};

Layouts layouts_of(const AttentionProblem& problem, const Kind& kind) {
  return {test::layouts_of(problem, kind.q).q, test::layouts_of(problem, kind.k).k,
          test::layouts_of(problem, kind.v).v, test::layouts_of(problem, kind.out).out};
}

/// Returns problems of several dtypes, head dims and masks. Five pairs of lengths take turns.
std::vector<AttentionProblem> problems() {
  const std::vector<std::pair<int, int>> lengths = {{77, 93}, {129, 65}, {100, 257}, {1, 200}, {67, 66}};
  const std::vector<std::pair<int, int>> head_dims = {{64, 64}, {72, 40}, {128, 128}, {256, 256}};
  std::vector<AttentionProblem> list;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const auto& [d, dv] : head_dims) {
      for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
        const auto& [sq, sk] = lengths[list.size() % lengths.size()];
        list.push_back({.dtype = dtype,
                        .head_dim = d,
                        .head_dim_v = dv,
                        .mask = mask,
                        .batch = 2,
                        .heads_q = 4,
                        .heads_kv = 2,
                        .seqlen_q = sq,
                        .seqlen_k = sk});
      }
    }
  }
  return list;
}

}  // namespace

TEST_CASE("any layout gives the right output and leaves the memory around it alone") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  precompile(context, problems(), {{RowAlignment::bytes16}, {kElement}, {kAnyOrder}});
  // The interpreter runs every third problem of each kind, and begins each kind with another one.
  const std::size_t step = device_under_test() == kInterpreterDevice ? 3 : 1;
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    for (std::size_t i = kind % step; i < problems().size(); i += step) {
      const AttentionProblem p = problems()[i];
      INFO(std::string(kKinds[kind].name));
      run_and_expect_contract(context, GuardedCall(p, layouts_of(p, kKinds[kind])));
    }
  }
}

TEST_CASE("if the fast kernels cannot load a call, another kernel runs and says why") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const AttentionProblem problem = problems().front();
  for (const Kind& kind : kKinds) {
    Context context(untuned());
    INFO(std::string(kind.name));
    run_and_expect_contract(context, GuardedCall(problem, layouts_of(problem, kind)));
    for (const RowAlignment alignment : {RowAlignment::bytes16, kElement, kAnyOrder}) {
      const PlannedProblem planned(problem, {alignment});
      const bool ran = context.impl().plans.find({planned, device_under_test()}).has_value();
      CHECK(ran == (alignment == kind.holds));
    }
    const std::string notes = context.plan(problem, device_under_test(), {kind.holds}).explain().notes;
    CHECK((notes.find("16-byte aligned") != std::string::npos) == (kind.holds == kElement));
    CHECK((notes.find("not positive") != std::string::npos) == (kind.holds == kAnyOrder));
  }
}

TEST_CASE("a plan refuses rows that break its guarantees") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const AttentionProblem problem = problems().front();
  const auto plan = [&](RowAlignment rows) { return context.plan(problem, device_under_test(), {rows}); };
  const AttentionPlan fast = plan(RowAlignment::bytes16), any = plan(kElement), any_order = plan(kAnyOrder);
  for (const Kind& kind : kKinds) {
    GuardedCall call(problem, layouts_of(problem, kind));
    INFO(std::string(kind.name));
    if (kind.holds != RowAlignment::bytes16) {
      CHECK_THROWS_AS(fast.run(call.args), InvalidRequest);
      CHECK(call.is_untouched());
    }
    if (kind.holds == kElement) {
      CHECK_THROWS_AS(any_order.run(call.args), InvalidRequest);
      CHECK(call.is_untouched());
    } else {
      any_order.run(call.args);
      expect_contract(call);
      call.upload();
    }
    any.run(call.args);
    expect_contract(call);
  }
}

TEST_CASE("NaN in another head's keys and values stays there") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  std::vector<AttentionProblem> list = problems();
  list.resize(6);
  precompile(context, list);
  for (const AttentionProblem& problem : list) {
    for (MakeLayout make : {guarded_bshd, guarded_bhsd}) {
      GuardedCall call(problem, test::layouts_of(problem, make));
      run_and_expect_contract(context, call);
      const reference::Tensor clean = call.out();
      constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
      for (std::int64_t j = 0; j < call.problem.seqlen_k; ++j) {
        for (std::int64_t d = 0; d < call.k.dim; ++d) call.k.at(0, 1, j, d) = kNaN;
        for (std::int64_t d = 0; d < call.v.dim; ++d) call.v.at(0, 1, j, d) = kNaN;
      }
      call.upload();
      context.attention(call.problem, call.args);
      const reference::Tensor o = call.out();
      // Query heads 2 and 3 of batch 0 read the poisoned key/value head; no other head does.
      const std::int64_t last = call.problem.seqlen_q - 1;
      CHECK(std::isnan(o.at(0, 2, last, 0)));
      CHECK(std::isnan(o.at(0, 3, last, 0)));
      const auto head_size = static_cast<std::ptrdiff_t>(call.problem.seqlen_q * o.dim);
      const auto same = [&](std::ptrdiff_t first_head, std::ptrdiff_t heads) {
        const auto begin = o.values.begin() + first_head * head_size;
        return std::equal(begin, begin + heads * head_size, clean.values.begin() + first_head * head_size);
      };
      CHECK(same(0, 2));
      CHECK(same(4, 4));
    }
  }
}

TEST_CASE("Q, K, V and O are slices of one packed buffer") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const AttentionProblem p = {.dtype = DType::bf16,
                              .head_dim = 64,
                              .head_dim_v = 64,
                              .mask = MaskKind::causal_bottom_right,
                              .batch = 2,
                              .heads_q = 3,
                              .heads_kv = 3,
                              .seqlen_q = 70,
                              .seqlen_k = 70};
  const Shape shape{p.batch, p.heads_q, p.seqlen_q, p.head_dim};
  const std::int64_t slice = shape.heads * shape.dim, total = shape.batch * shape.rows * 4 * slice;
  const TensorStrides strides{shape.rows * 4 * slice, shape.dim, 4 * slice};
  const reference::Tensor q = random_tensor(shape, p.dtype, 1), k = random_tensor(shape, p.dtype, 2),
                          v = random_tensor(shape, p.dtype, 3);
  std::vector<std::uint16_t> image(static_cast<std::size_t>(total), 0xffff);
  const reference::Tensor* inputs[] = {&q, &k, &v};
  for (std::int64_t i = 0; i < 3; ++i)
    scatter(*inputs[i], {shape, strides, i * slice, total}, p.dtype, image);
  DeviceBuffer buffer(image.size() * 2);
  buffer.upload(image.data(), buffer.size());

  auto* const base = static_cast<std::uint16_t*>(buffer.data());
  AttentionArgs args = bshd_args(p, base, base + slice, base + 2 * slice, base + 3 * slice);
  args.q_strides = args.k_strides = args.v_strides = args.out_strides = strides;
  context.attention(p, args);

  std::vector<std::uint16_t> after(image.size());
  buffer.download(after.data(), buffer.size());
  const Layout output{shape, strides, 3 * slice, total};
  const reference::Tensor o = gather(after, output, p.dtype);
  const reference::Verdict verdict = reference::check(p, q, k, v, 0.125, o, nullptr);
  CHECK_MESSAGE(verdict.ok, verdict.message);
  scatter(o, output, p.dtype, image);
  CHECK((after == image));  // the inputs have not changed
}
