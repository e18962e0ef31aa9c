// Loads and stores of several words: the order of the words, bit for bit.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "array_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns the bits of floats of every kind: each sign and exponent, NaNs with payloads, subnormals.
std::vector<std::uint32_t> words() {
  std::vector<std::uint32_t> list;
  for (std::uint32_t high = 0; high < 512; ++high) list.push_back(high << 23 | (high * 2654435761u >> 9));
  return list;
}

}  // namespace

TEST_CASE("ld.global.v4 loads four words in order, prefetched or not") {
  if (cannot_run()) return;
  const auto in = words();
  CHECK(run_over<std::uint32_t>(in, in.size(),
                                "for (int i = 4 * thread_index(); i < p.count; i += 4 * 32) {\n"
                                "  if (i % 8 == 0) prefetch_l2(p.in + p.count - 1 - i);\n"
                                "  const Vector16 v = ld_global_v4(p.in + i);\n"
                                "  for (int j = 0; j < 4; ++j) p.out[i + j] = v.word[j];\n}") == in);
}

TEST_CASE("ld.global.v4.f32 loads four floats in order, whatever their bits") {
  if (cannot_run()) return;
  const auto in = words();
  CHECK(run_over<std::uint32_t>(in, in.size(),
                                "for (int i = 4 * thread_index(); i < p.count; i += 4 * 32) {\n"
                                "  float value[4];\n"
                                "  ld_global_v4_f32(reinterpret_cast<const float*>(p.in + i), value);\n"
                                "  for (int j = 0; j < 4; ++j) p.out[i + j] = bits_of(value[j]);\n}") == in);
}

TEST_CASE("a load of an array that may be missing") {
  if (cannot_run()) return;
  const auto in = words();
  std::vector<std::uint32_t> expected = in;
  for (std::size_t i = 1; i < in.size(); i += 2) expected[i] = 7;
  CHECK(run_over<std::uint32_t>(
            in, in.size(),
            "for (int i = thread_index(); i < p.count; i += 32) {\n"
            "  const int* const array = reinterpret_cast<const int*>(i % 2 == 0 ? p.in : nullptr);\n"
            "  p.out[i] = static_cast<u32>(ld_global_s32_or(array, i, 7));\n}") == expected);
}

TEST_CASE("ld.shared.v2 and st.shared.v2 keep two words in order") {
  if (cannot_run()) return;
  std::vector<std::uint32_t> in(64);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint32_t>(0x1000 + i);
  const auto out = run_over<std::uint32_t>(in, in.size(), R"(
    const SharedAddress at = dynamic_shared() + 8 * thread_index();
    st_shared_v2(at, {{p.in[2 * thread_index()], p.in[2 * thread_index() + 1]}});
    const Vector8 v = ld_shared_v2(at);
    p.out[2 * thread_index()] = v.word[0], p.out[2 * thread_index() + 1] = v.word[1];
  )");
  CHECK(out == in);
}

TEST_CASE("ld.global.v2 and st.global.v2 keep two words in order") {
  if (cannot_run()) return;
  const auto in = words();
  CHECK(run_over<std::uint32_t>(in, in.size(),
                                "for (int i = 2 * thread_index(); i < p.count; i += 2 * 32) {\n"
                                "  const Vector8 v = ld_global_v2(p.in + i);\n"
                                "  for (int j = 0; j < 2; ++j) p.out[i + j] = v.word[j];\n}") == in);
  CHECK(run_over<std::uint32_t>(in, in.size(),
                                "for (int i = 2 * thread_index(); i < p.count; i += 2 * 32) {\n"
                                "  st_global_v2(p.out + i, Vector8{p.in[i], p.in[i + 1]});\n}") == in);
}

TEST_CASE("ld.shared.v2.f32 loads two floats in order, whatever their bits") {
  if (cannot_run()) return;
  const auto in = words();
  const auto out = run_over<std::uint32_t>(
      in, in.size(),
      "const SharedAddress s = dynamic_shared();\n"
      "for (int i = thread_index(); i < p.count; i += 32) st_shared_u32(s + 4 * i, p.in[i]);\n"
      "bar_warp_sync();\n"
      "for (int i = 2 * (thread_index() ^ 5); i < p.count; i += 2 * 32) {\n"
      "  float value[2];\n"
      "  ld_shared_f32_x2(s + 4 * i, value);\n"
      "  p.out[i] = bits_of(value[0]);\n  p.out[i + 1] = bits_of(value[1]);\n}",
      32, 4 * 512);
  CHECK(out == in);
}

TEST_CASE("loads of staged elements: words, halves of words and floats") {
  if (cannot_run()) return;
  const auto in = words();
  const auto out = run_over<std::uint32_t>(
      in, in.size(),
      "const SharedAddress s = dynamic_shared();\n"
      "for (int i = thread_index(); i < p.count; i += 32) st_shared_u32(s + 4 * i, p.in[i]);\n"
      "bar_warp_sync();\n"
      "const SharedAddress renewed_base = renewed(s);\n"
      "for (int i = thread_index() ^ 5; i < p.count; i += 32) {\n"
      "  const SharedAddress at = renewed_base + 4 * i;\n"
      "  p.out[i] = i % 3 == 0   ? ld_staged_u16(at) | ld_staged_u16(at + 2) << 16\n"
      "             : i % 3 == 1 ? ld_staged_u32(at) : bits_of(ld_staged_f32(at));\n}",
      32, 4 * 512);
  CHECK(out == in);
}

TEST_CASE("st.global.u32 stores a word") {
  if (cannot_run()) return;
  const auto in = words();
  CHECK(run_over<std::uint32_t>(
            in, in.size(),
            "for (int i = thread_index(); i < p.count; i += 32) st_global_u32(p.out + i, p.in[i]);") == in);
}

TEST_CASE("st.global.u8 stores only the lowest byte") {
  if (cannot_run()) return;
  const auto in = words();
  const auto out = run_over<std::uint32_t>(
      in, in.size(),
      "auto* const bytes = reinterpret_cast<unsigned char*>(p.out);\n"
      "for (int i = thread_index(); i < p.count; i += 32) {\n"
      "  for (int j = 0; j < 3; ++j) st_global_u8(bytes + 4 * i + j, p.in[i] >> (8 * j));\n}");
  for (std::size_t i = 0; i < in.size(); ++i) CHECK(out[i] == ((in[i] & 0xffffff) | 0xa5000000));
}
