// Shuffles, votes, barriers, special registers, and plain loads and stores.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "array_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

std::vector<float> numbered(std::size_t count) {
  std::vector<float> list(count);
  std::iota(list.begin(), list.end(), 100.0f);
  return list;
}

}  // namespace

TEST_CASE("shfl.bfly exchanges within each warp, by any mask") {
  if (cannot_run()) return;
  const auto in = numbered(64);
  for (const std::size_t mask : {0, 1, 2, 3, 4, 8, 16, 21, 31}) {
    const auto out = run_over<float>(
        in, 64, "p.out[thread_index()] = shfl_bfly(p.in[thread_index()], " + std::to_string(mask) + ");", 64);
    for (std::size_t i = 0; i < 64; ++i) CHECK(out[i] == in[i ^ mask]);
  }
}

TEST_CASE("shfl.bfly of integers exchanges within each warp") {
  if (cannot_run()) return;
  std::vector<std::uint32_t> in;
  for (std::uint32_t i = 0; i < 64; ++i) in.push_back(0x7f800001u * (i + 1));
  const auto out =
      run_over<std::uint32_t>(in, 64, "p.out[thread_index()] = shfl_bfly(p.in[thread_index()], 4);", 64);
  for (std::size_t i = 0; i < 64; ++i) CHECK(out[i] == in[i ^ 4]);
}

TEST_CASE("shfl.bfly keeps the bits of NaN, infinities, subnormals and -0") {
  if (cannot_run()) return;
  const std::uint32_t patterns[] = {0x7fc12345, 0xffc00001, 0x7f800000, 0xff800000, 0x00000001, 0x80000000};
  std::vector<float> in;
  for (std::size_t i = 0; i < 32; ++i) in.push_back(std::bit_cast<float>(patterns[i % std::size(patterns)]));
  const auto out = run_over<float>(in, 32, "p.out[lane_index()] = shfl_bfly(p.in[lane_index()], 16);");
  for (std::size_t i = 0; i < 32; ++i)
    CHECK(std::bit_cast<std::uint32_t>(out[i]) == std::bit_cast<std::uint32_t>(in[i ^ 16]));
}

TEST_CASE("vote.any gives every lane of a warp the same answer") {
  if (cannot_run()) return;
  const std::string body = "p.out[thread_index()] = vote_any(p.in[thread_index()] != 0);";
  std::vector<std::uint32_t> in(64, 0);
  CHECK(run_over<std::uint32_t>(in, 64, body, 64) == std::vector<std::uint32_t>(64, 0));
  in[45] = 2;
  const auto one = run_over<std::uint32_t>(in, 64, body, 64);
  for (std::size_t i = 0; i < 64; ++i) CHECK(one[i] == (i < 32 ? 0 : 1));
  CHECK(run_over<std::uint32_t>(std::vector<std::uint32_t>(64, 1), 64, body, 64) ==
        std::vector<std::uint32_t>(64, 1));
}

TEST_CASE("special registers") {
  if (cannot_run()) return;
  const auto out = run_over<std::uint32_t>(std::vector<std::uint32_t>(1), 96 * 5,
                                           "u32* const out = p.out + 5 * thread_index();\n"
                                           "out[0] = thread_index();\nout[1] = lane_index();\n"
                                           "out[2] = warp_index();\nout[3] = block_index();\n"
                                           "out[4] = dynamic_shared() % 1024;",
                                           96);
  for (std::uint32_t t = 0; t < 96; ++t) {
    const std::vector<std::uint32_t> found(out.begin() + 5 * t, out.begin() + 5 * t + 5);
    CHECK(found == std::vector<std::uint32_t>{t, t % 32, t / 32, 0, 0});
  }
}

TEST_CASE("bar.sync shows each thread the others' stores, iteration after iteration") {
  if (cannot_run()) return;
  const auto out =
      run_over<std::uint32_t>(std::vector<std::uint32_t>(1), 128,
                              "const int t = thread_index();\n"
                              "const SharedAddress s = dynamic_shared();\n"
                              "u32 mine = t;\n"
                              "for (int turn = 0; turn < 5; ++turn) {\n"
                              "  st_shared_u32(s + 4 * t, mine);\n  bar_sync();\n"
                              "  mine = ld_shared_u32(s + 4 * ((t + 1) % 128));\n  bar_sync();\n}\n"
                              "p.out[t] = mine;",
                              128);
  for (std::uint32_t t = 0; t < 128; ++t) CHECK(out[t] == (t + 5) % 128);
}

TEST_CASE("bar.warp.sync shows each lane the others' stores") {
  if (cannot_run()) return;
  const auto out =
      run_over<std::uint32_t>(std::vector<std::uint32_t>(1), 64,
                              "const SharedAddress s = dynamic_shared() + 128 * warp_index();\n"
                              "st_shared_u32(s + 4 * lane_index(), thread_index());\n"
                              "bar_warp_sync();\n"
                              "p.out[thread_index()] = ld_shared_u32(s + 4 * (31 - lane_index()));",
                              64);
  for (std::uint32_t t = 0; t < 64; ++t) CHECK(out[t] == (t ^ 31));
}

TEST_CASE("plain loads and stores of every width") {
  if (cannot_run()) return;
  std::vector<std::uint32_t> in(32 * 4);
  std::iota(in.begin(), in.end(), 0x10203040u);
  const std::size_t half = in.size();
  const auto out = run_over<std::uint32_t>(
      in, 3 * half,
      "const int t = thread_index();\nconst SharedAddress s = dynamic_shared() + 16 * t;\n"
      "for (int i = 0; i < 4; ++i) st_shared_u32(s + 4 * i, p.in[4 * t + i]);\n"
      "const Vector16 v = ld_shared_v4(s);\nst_global_v4(p.out + 4 * t, v);\n"
      "Vector16 w = v;\nfor (int i = 0; i < 4; ++i) w.word[i] = ~v.word[i];\nst_shared_v4(s, w);\n"
      "u32* const second = p.out + p.count + 4 * t;\n"
      "for (int i = 0; i < 4; ++i) st_global_f32(second + i, static_cast<float>(ld_shared_u32(s + 4 * i) % "
      "1024));\n"
      "u16* const third = reinterpret_cast<u16*>(p.out + 2 * p.count + 4 * t);\n"
      "const u16* const from = reinterpret_cast<const u16*>(p.in + 4 * t);\n"
      "for (int i = 0; i < 8; ++i) st_global_u16(third + i, ld_global_u16(from + (i ^ 1)));");
  for (std::size_t i = 0; i < half; ++i) {
    CHECK(out[i] == in[i]);
    CHECK(std::bit_cast<float>(out[half + i]) == static_cast<float>(~in[i] % 1024));
    CHECK(out[2 * half + i] == std::rotl(in[i], 16));
  }
}
