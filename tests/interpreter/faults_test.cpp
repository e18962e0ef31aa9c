// A launch that breaks a rule ends with one fault, and harms nothing else.
#include <doctest/doctest.h>
#include <interpreter/host_compiler.h>
#include <interpreter/interpreted_kernel.h>
#include <runtime/parallel.h>

#include "broken_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

std::shared_ptr<const Kernel> build_body(const std::string& body, const interpreter::Options& options = {}) {
  return build(small_kernel({"", body, {}, 64}), options);
}

BrokenParams mended() {
  BrokenParams params;
  params.mended = true;
  return params;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("among many faults, the lowest block's is reported, once") {
  const auto kernel = build_body("if (block_index() >= 3) st_shared_u32(s + 2, 1);\nbar_sync();");
  for (int i = 0; i < 50; ++i) {
    const std::string fault = fault_of(*kernel, BrokenParams{}, {}, 64);
    CHECK(fault.find("block 3, thread 0") != std::string::npos);
    CHECK(count(fault, "block") == 1);
  }
}

TEST_CASE("a kernel runs again after a fault, wherever its threads were") {
  const auto kernel = build_body(
      "shfl_bfly(1.0f, 1);\n"
      "if (t < 32) bar_sync();\n"
      "if (!mended && t == 45) st_shared_u32(s + 4096, 1);\n"
      "bar_warp_sync();\n"
      "if (t >= 32) bar_sync();");
  for (int i = 0; i < 20; ++i) {
    CHECK(fault_of(*kernel, BrokenParams{}, {}, 8).find("thread 45 (warp 1, lane 13), at body:3") !=
          std::string::npos);
    CHECK(fault_of(*kernel, mended(), {}, 8) == "");
  }
}

TEST_CASE("a fault unwinds the kernel's own objects") {
  int alive = 0;
  const auto kernel = build(
      {"struct Counted {\n  int& n;\n  explicit Counted(int& m) : n(m) { ++n; }\n  ~Counted() { --n; }\n};\n"
       "const Counted counted(*p.alive);\nbar_sync();\n"
       "if (thread_index() == 5) st_shared_u32(dynamic_shared() + 1, 1);\nbar_sync();",
       "int* alive;", 64},
      interpreter::Options{});
  CHECK(fault_of(*kernel, &alive).find("misaligned") != std::string::npos);
  CHECK(alive == 0);
}

TEST_CASE("a fault names the template in the repository, not a copy that is gone") {
  KernelSource source = source_of(small_kernel({"", "break_a_rule(s);", {}, 64}), interpreter_arch());
  source.headers.push_back({"attention/broken.cuh",
                            "#pragma once\n#include \"ptx/memory.cuh\"\n"
                            "inline void break_a_rule(fa2::ptx::SharedAddress s) {\n"
                            "  fa2::ptx::st_shared_u32(s + 1, 1);\n}\n"});
  source.main.text.insert(0, "#include \"attention/broken.cuh\"\n");
  const auto kernel =
      interpreter::load_interpreted_kernel(interpreter::make_host_compiler()->compile(source), {});
  CHECK(fault_of(*kernel, BrokenParams{}).ends_with(", at templates/attention/broken.cuh:4"));
}

TEST_CASE("kernels on several host threads fault at the same time") {
  const auto kernel = build_body("bar_sync();\nif (!mended) ld_shared_u32(s + 4 * t);\nbar_sync();");
  for_each_index(16, 4, [&](std::size_t i) {
    const std::string fault = fault_of(*kernel, i % 2 == 0 ? BrokenParams{} : mended(), {}, 4);
    if ((fault.find("nothing has written") != std::string::npos) != (i % 2 == 0))
      throw Error(ErrorCode::internal, fault);
  });
}

TEST_CASE("without checks, accesses that a GPU might let pass do not stop a kernel") {
  const std::string bodies[] = {
      "st_shared_u32(s, 1);\nld_shared_u32(s);",                                // races
      "ld_shared_u32(s + 4 * t);",                                              // never written
      "cp_async_16(s, p.input);\ncp_async_commit_group();\nld_shared_u32(s);",  // in flight, never waited for
      "p.output != nullptr ? st_global_u16(const_cast<unsigned char*>(p.input), 1) : void();"};  // stores to an input
  std::uint64_t memory[2] = {};
  auto* const bytes = reinterpret_cast<std::byte*>(memory);
  for (const std::string& body : bodies) {
    INFO(body);
    const auto kernel = build_body(body, {false, false, 0});
    CHECK(fault_of(*kernel, BrokenParams{bytes, bytes, false}) == "");
  }
}

TEST_CASE("without checks, accesses outside of shared memory and deadlocks still stop a kernel") {
  const interpreter::Options unchecked{false, false, 0};
  CHECK(fault_of(*build_body("st_shared_u32(s + 1024, 1);", unchecked), BrokenParams{})
            .find("outside the block") != std::string::npos);
  CHECK(fault_of(*build_body("if (t < 32) bar_sync();", unchecked), BrokenParams{}).find("deadlock") !=
        std::string::npos);
}
