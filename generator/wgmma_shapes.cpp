// One function per shape and kind of accumulation; each is a single instruction with all its registers.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/wgmma_shapes.h>

#include <set>

namespace fa2 {
namespace {

std::string_view tag_of(WgmmaOperand operand) {
  return operand == WgmmaOperand::k_major ? "Major::k" : "Major::mn";
}

/// Returns "%4, %5, %6" for (4, 3).
std::string registers(int first, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{}%{}", i == 0 ? "" : ", ", first + i);
  return list;
}

std::string operands(std::string_view constraint, std::string_view name, int count) {
  std::string list;
  for (int i = 0; i < count; ++i)
    list += fmt::format("{}\"{}\"({}[{}])", i == 0 ? "" : ", ", constraint, name, i);
  return list;
}

/// If reads_d: D = A B + (accumulate ? D : 0). Else D = A B, so that the compiler knows that the old D is not read.
std::string function_of(const WgmmaShape& shape, bool reads_d) {
  const bool rs = shape.a == WgmmaOperand::registers;
  const int count = shape.n / 2, a_count = rs ? 4 : 1, after = count + a_count + 1;
  const std::string_view type = shape.element == DType::f16 ? "f16" : "bf16";
  const std::string a = registers(count, a_count);
  const std::string majors = fmt::format("{}{}",
                                         rs                                  ? ""
                                         : shape.a == WgmmaOperand::mn_major ? ", 1"
                                                                             : ", 0",
                                         shape.b == WgmmaOperand::mn_major ? ", 1" : ", 0");
  return fmt::format(
      "template <>\n"
      "FA2_DEVICE void wgmma_{kind}<{element}, {n}, {tags}>(float (&d)[{count}], {a_parameter}, "
      "MatrixDescriptor b{flag}) {{\n"
      "  asm volatile(\"{{\\n  .reg .pred p;\\n  setp.ne.b32 p, %{predicate}, 0;\\n\"\n"
      "    \"  wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{type}.{type} {{{d}}}, {a}, %{b}, p, 1, "
      "1{majors};\\n}}\"\n"
      "    : {outputs}\n    : {inputs}, \"l\"(b.bits), \"r\"({scale})\n    : \"memory\");\n}}\n\n",
      fmt::arg("kind", rs ? "rs" : "ss"),
      fmt::arg("element", shape.element == DType::f16 ? "Half" : "BFloat16"), fmt::arg("n", shape.n),
      fmt::arg("tags",
               rs ? std::string(tag_of(shape.b)) : fmt::format("{}, {}", tag_of(shape.a), tag_of(shape.b))),
      fmt::arg("count", count), fmt::arg("a_parameter", rs ? "const u32 (&a)[4]" : "MatrixDescriptor a"),
      fmt::arg("flag", reads_d ? ", bool accumulate" : ""), fmt::arg("predicate", after),
      fmt::arg("type", type), fmt::arg("d", registers(0, count)), fmt::arg("a", rs ? "{" + a + "}" : a),
      fmt::arg("b", after - 1), fmt::arg("majors", majors),
      fmt::arg("outputs", operands(reads_d ? "+f" : "=f", "d", count)),
      fmt::arg("inputs", rs ? operands("r", "a", 4) : "\"l\"(a.bits)"),
      fmt::arg("scale", reads_d ? "static_cast<u32>(accumulate)" : "0"));
}

void require_known(const WgmmaShape& shape) {
  if (shape.n >= 8 && shape.n <= 256 && shape.n % 8 == 0 && shape.b != WgmmaOperand::registers) return;
  throw Error(ErrorCode::internal,
              fmt::format("there is no wgmma m64n{}k16 {}", shape.n,
                          shape.b == WgmmaOperand::registers ? "with B in registers" : ""));
}

}  // namespace

std::string render_wgmma_shapes(std::span<const WgmmaShape> shapes) {
  std::string text =
      "// Rendered by fa2: the warpgroup MMAs of this kernel\n#pragma once\n\n#include "
      "\"ptx/wgmma.cuh\"\n\nnamespace "
      "fa2::ptx {\n\n";
  std::set<std::string> written;
  for (const WgmmaShape& shape : shapes) {
    require_known(shape);
    for (const bool reads_d : {false, true}) {
      if (const auto [at, is_new] = written.insert(function_of(shape, reads_d)); is_new) text += *at;
    }
  }
  return text + "}  // namespace fa2::ptx\n";
}

SourceFile wgmma_header(const std::vector<WgmmaShape>& shapes) {
  return {"ptx/wgmma_shapes.cuh", render_wgmma_shapes(shapes)};
}

}  // namespace fa2
