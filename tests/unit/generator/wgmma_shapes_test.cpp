// The rendered wgmma instructions of a kernel. Other tests compile and run them.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/kernel_source.h>
#include <generator/wgmma_shapes.h>

#include <string>
#include <vector>

using namespace fa2;

namespace {

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a wgmma is rendered once, with and without its old accumulators") {
  const WgmmaShape ss{DType::f16, 16, WgmmaOperand::k_major, WgmmaOperand::mn_major};
  const WgmmaShape rs{DType::bf16, 8, WgmmaOperand::registers, WgmmaOperand::mn_major};
  const std::string text = render_wgmma_shapes(std::vector{ss, rs, ss});
  CHECK(count_of(text, "wgmma_ss<Half, 16, Major::k, Major::mn>(float (&d)[8], MatrixDescriptor a") == 2);
  CHECK(count_of(text, "wgmma_rs<BFloat16, 8, Major::mn>(float (&d)[4], const u32 (&a)[4]") == 2);
  CHECK(count_of(text, "m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 1;") ==
        2);
  CHECK(count_of(text, "m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, 1;") == 2);
  CHECK(count_of(text, "\"+f\"(d[0])") == 2);
  CHECK(count_of(text, "\"=f\"(d[0])") == 2);
}

TEST_CASE("a wgmma that no GPU has is rejected") {
  for (const int n : {0, 4, 12, 264})
    CHECK_THROWS_AS(render_wgmma_shapes(std::vector{WgmmaShape{DType::f16, n}}), Error);
  const WgmmaShape b_in_registers{DType::f16, 8, WgmmaOperand::k_major, WgmmaOperand::registers};
  CHECK_THROWS_AS(render_wgmma_shapes(std::vector{b_in_registers}), Error);
}

TEST_CASE("wgmmas are rendered only for a GPU's kernel; the interpreter's emulation has every shape") {
  const SourceFile rendered = wgmma_header({{DType::bf16, 16}});
  for (const char* arch : {"sm_90a", "interpreter"}) {
    int found = 0;
    for (const SourceFile& header : device_headers("", *find_arch(arch), {rendered})) {
      if (header.name != "ptx/wgmma_shapes.cuh") continue;
      ++found;
      CHECK((header.text == rendered.text) == (std::string(arch) == "sm_90a"));
    }
    CHECK(found == 1);
  }
}
