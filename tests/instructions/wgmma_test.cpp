// wgmma on the device under test, compared with a product on the host: every shape, operand and layout.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <reference/attention_reference.h>
#include <runtime/device.h>
#include <runtime/parallel.h>

#include <random>
#include <string>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"
#include "wgmma_operand.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr int kM = 128, kK = 64;  // two warpgroups, four steps

struct Case {
  WgmmaShape shape;
  Swizzle a_swizzle = Swizzle::span128;
  Swizzle b_swizzle = Swizzle::span128;

  bool a_in_registers() const { return shape.a == WgmmaOperand::registers; }
  OperandPlacement a() const {
    return {kM, kK, a_in_registers() ? WgmmaOperand::k_major : shape.a, a_swizzle};
  }
  OperandPlacement b() const { return {shape.n, kK, shape.b, b_swizzle}; }
  int a_bytes() const { return (a().bytes() + 1023) / 1024 * 1024; }
  std::string name() const {
    const auto text = [](WgmmaOperand o, Swizzle s) {
      return o == WgmmaOperand::registers
                 ? std::string("registers")
                 : fmt::format("{}-major, span {}", o == WgmmaOperand::k_major ? "k" : "mn", span_of(s));
    };
    return fmt::format("{} n {}, A {}, B {}", to_string(shape.element), shape.n, text(shape.a, a_swizzle),
                       text(shape.b, b_swizzle));
  }
};

struct Params {
  const void* a;  ///< bytes as in shared memory
  const void* b;
  const void* a_rows;  ///< row-major
  float* out;
  int accumulate;
};
constexpr const char* kParams =
    "const unsigned char* a; const unsigned char* b; const u16* a_rows; float* out; int accumulate;";

std::string swizzle_name(Swizzle swizzle) {
  return swizzle == Swizzle::none ? "Swizzle::none" : fmt::format("Swizzle::span{}", span_of(swizzle));
}

std::string descriptor(const OperandPlacement& operand, std::string_view start) {
  return fmt::format("matrix_descriptor<{}>({}, {}, {})", swizzle_name(operand.swizzle), start,
                     operand.leading_bytes(), operand.stride_bytes());
}

/// Returns a kernel that computes D = A B in four steps, then step 0 again: added if p.accumulate is 1, else
/// alone.
SmallKernel kernel_of(const Case& c) {
  const auto major = [](WgmmaOperand o) { return o == WgmmaOperand::k_major ? "Major::k" : "Major::mn"; };
  std::string call =
      fmt::format("wgmma_rs<{}, {}, {}>(d, a[{{0}}], b.advanced({{2}}){{3}});\n",
                  c.shape.element == DType::f16 ? "Half" : "BFloat16", c.shape.n, major(c.shape.b));
  if (!c.a_in_registers()) {
    call = fmt::format("wgmma_ss<{}, {}, {}, {}>(d, a.advanced({{1}}), b.advanced({{2}}){{3}});\n",
                       c.shape.element == DType::f16 ? "Half" : "BFloat16", c.shape.n, major(c.shape.a),
                       major(c.shape.b));
  }
  const auto step = [&](int k, std::string_view flag) {
    return fmt::format(fmt::runtime(call), k / 16, c.a().step_bytes(k), c.b().step_bytes(k), flag);
  };
  std::string body =
      fmt::format(R"(
    const SharedAddress a_tile = dynamic_shared(), b_tile = a_tile + {a_bytes};
    for (int i = 16 * thread_index(); i < {a_bytes}; i += 16 * 256) cp_async_16(a_tile + i, p.a + i);
    for (int i = 16 * thread_index(); i < {b_bytes}; i += 16 * 256) cp_async_16(b_tile + i, p.b + i);
    cp_async_commit_group();
    cp_async_wait_group<0>();
    fence_proxy_async_shared();
    bar_sync();
    const int row = 16 * (thread_index() / 32) + lane_index() / 4, quad = lane_index() % 4;
    const MatrixDescriptor b = {b};
    float d[{count}];
)",
                  fmt::arg("a_bytes", c.a_bytes()), fmt::arg("b_bytes", c.b().bytes()),
                  fmt::arg("b", descriptor(c.b(), "b_tile")), fmt::arg("count", c.shape.n / 2));
  if (c.a_in_registers()) {
    body += fmt::format(R"(
    u32 a[4][4];
    for (int k = 0; k < 4; ++k) {{
      for (int i = 0; i < 4; ++i) {{
        const u16* pair = p.a_rows + (row + i % 2 * 8) * {k} + 16 * k + i / 2 * 8 + 2 * quad;
        a[k][i] = ld_global_u16(pair) | ld_global_u16(pair + 1) << 16;
      }}
    }}
    for (int k = 0; k < 4; ++k) hold_registers(a[k]);
)",
                        fmt::arg("k", kK));
  } else {
    body +=
        fmt::format("const MatrixDescriptor a = {};\n",
                    descriptor(c.a(), fmt::format("a_tile + warpgroup_index() * {}", c.a().row_bytes(64))));
  }
  body += "wgmma_fence();\n" + step(0, "") + step(16, ", true") + step(32, ", true") + step(48, ", true") +
          step(0, ", p.accumulate != 0") +
          "wgmma_commit_group();\nwgmma_wait_group<0>();\nhold_registers(d);\n";
  body += fmt::format(
      "for (int i = 0; i < {}; ++i) st_global_f32(p.out + (row + i / 2 % 2 * 8) * {} + i / 4 * 8 + 2 * quad "
      "+ i % 2, d[i]);",
      c.shape.n / 2, c.shape.n);
  return {body, kParams, 256, c.a_bytes() + c.b().bytes(), {c.shape}};
}

std::vector<int> small_integers(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> values(static_cast<std::size_t>(count));
  for (int& value : values) value = static_cast<int>(random() % 5) - 2;
  return values;
}

DeviceBuffer placed(const OperandPlacement& operand, const std::vector<int>& values, DType element,
                    int bytes) {
  std::vector<std::uint16_t> image(static_cast<std::size_t>(bytes) / 2);
  for (int mn = 0; mn < operand.rows; ++mn) {
    for (int k = 0; k < operand.k; ++k) {
      image[static_cast<std::size_t>(operand.byte_of(mn, k) / 2)] =
          to_bits(static_cast<float>(values[static_cast<std::size_t>(mn * operand.k + k)]), element);
    }
  }
  DeviceBuffer buffer(static_cast<std::size_t>(bytes));
  buffer.upload(image.data(), buffer.size());
  return buffer;
}

/// Returns how many elements are wrong.
int run(const Case& c, const Kernel& kernel, bool accumulate) {
  const std::vector<int> a = small_integers(kM * kK, 1), b = small_integers(c.shape.n * kK, 2);
  const DeviceBuffer a_placed = placed(c.a(), a, c.shape.element, c.a_bytes());
  const DeviceBuffer b_placed = placed(c.b(), b, c.shape.element, c.b().bytes());
  DeviceBuffer a_rows(2 * a.size()), out(static_cast<std::size_t>(kM * c.shape.n) * sizeof(float));
  std::vector<std::uint16_t> bits;
  for (const int value : a) bits.push_back(to_bits(static_cast<float>(value), c.shape.element));
  a_rows.upload(bits.data(), a_rows.size());
  out.fill(0xff);
  launch(kernel,
         Params{a_placed.data(), b_placed.data(), a_rows.data(), static_cast<float*>(out.data()),
                accumulate ? 1 : 0},
         Buffers{}.input(a_placed).input(b_placed).input(a_rows).output(out));
  std::vector<float> d(static_cast<std::size_t>(kM * c.shape.n));
  out.download(d.data(), out.size());
  int wrong = 0;
  for (int row = 0; row < kM; ++row) {
    for (int col = 0; col < c.shape.n; ++col) {
      int all = 0, first_step = 0;
      for (int k = 0; k < kK; ++k) {
        const int product =
            a[static_cast<std::size_t>(row * kK + k)] * b[static_cast<std::size_t>(col * kK + k)];
        all += product;
        first_step += k < 16 ? product : 0;
      }
      const int expected = (accumulate ? all : 0) + first_step;
      wrong += d[static_cast<std::size_t>(row * c.shape.n + col)] != static_cast<float>(expected);
    }
  }
  return wrong;
}

/// Compiles the cases in parallel and runs them.
void check_all(const std::vector<Case>& cases) {
  std::vector<std::shared_ptr<const Kernel>> kernels(cases.size());
  for_each_index(cases.size(), 4, [&](std::size_t i) { kernels[i] = build(kernel_of(cases[i])); });
  const ScopedContext context(device_under_test());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(cases[i].name());
    CHECK(run(cases[i], *kernels[i], false) == 0);
    CHECK(run(cases[i], *kernels[i], true) == 0);
  }
}

constexpr Swizzle kSwizzles[] = {Swizzle::none, Swizzle::span32, Swizzle::span64, Swizzle::span128};
constexpr WgmmaOperand kMajors[] = {WgmmaOperand::k_major, WgmmaOperand::mn_major};

}  // namespace

TEST_CASE("wgmma computes every width") {
  if (cannot_run_sm_90a()) return;
  std::vector<Case> cases;
  for (int n = 8; n <= 256; n += 8) {
    // The interpreter computes every width, a GPU a spread of them.
    if (device_under_test() != kInterpreterDevice && n != 8 && n != 24 && n != 80 && n != 128 && n != 176 &&
        n != 256)
      continue;
    const DType element = n % 16 == 0 ? DType::f16 : DType::bf16;
    const WgmmaOperand b = n % 64 == 0 ? WgmmaOperand::mn_major : WgmmaOperand::k_major;
    cases.push_back({{element, n, WgmmaOperand::k_major, WgmmaOperand::k_major}});
    cases.push_back({{element, n, WgmmaOperand::registers, b}});
  }
  check_all(cases);
}

TEST_CASE("wgmma reads A and B from shared memory in every layout") {
  if (cannot_run_sm_90a()) return;
  std::vector<Case> cases;
  for (const Swizzle swizzle : kSwizzles) {
    for (const WgmmaOperand a : kMajors) {
      for (const WgmmaOperand b : kMajors) {
        cases.push_back({{DType::f16, 64, a, b}, swizzle, swizzle});
        cases.push_back({{DType::bf16, 192, a, b}, Swizzle::span128, swizzle});
      }
    }
  }
  check_all(cases);
}

TEST_CASE("wgmma takes A from registers, with B in every layout") {
  if (cannot_run_sm_90a()) return;
  std::vector<Case> cases;
  for (const Swizzle swizzle : kSwizzles) {
    for (const WgmmaOperand b : kMajors) {
      cases.push_back({{DType::bf16, 64, WgmmaOperand::registers, b}, Swizzle::span128, swizzle});
      cases.push_back({{DType::f16, 256, WgmmaOperand::registers, b}, Swizzle::span128, swizzle});
    }
  }
  check_all(cases);
}
