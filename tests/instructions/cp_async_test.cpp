// Asynchronous copies: their data, zero fill, and groups that complete in order.
#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "array_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns 1, 2, 3, ...
std::vector<std::uint32_t> numbers(std::size_t count) {
  std::vector<std::uint32_t> list(count);
  std::iota(list.begin(), list.end(), 1u);
  return list;
}

const std::string kBegin =
    "const int t = thread_index();\n"
    "const SharedAddress s = dynamic_shared();\n";
/// Each thread stores the 16 bytes that thread t ^ 33 has copied.
const std::string kEnd =
    "cp_async_wait_group<0>();\nbar_sync();\n"
    "const Vector16 v = ld_shared_v4(s + 16 * (t ^ 33));\n"
    "for (int i = 0; i < 4; ++i) p.out[4 * t + i] = v.word[i];";

}  // namespace

TEST_CASE("cp.async copies 16 bytes for every thread of the block") {
  if (cannot_run()) return;
  const auto in = numbers(64 * 4);
  const auto out = run_over<std::uint32_t>(
      in, in.size(), kBegin + "cp_async_16(s + 16 * t, p.in + 4 * t);\ncp_async_commit_group();\n" + kEnd,
      64);
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == in[i ^ (33 * 4)]);
}

TEST_CASE("cp.async with zero fill writes zeros and reads nothing") {
  if (cannot_run()) return;
  const auto in = numbers(64 * 4);
  const auto out = run_over<std::uint32_t>(
      in, in.size(),
      kBegin +
          "st_shared_v4(s + 16 * t, Vector16{{~0u, ~0u, ~0u, ~0u}});\nbar_sync();\n"
          "cp_async_16_zfill(s + 16 * t, p.in + 4 * t, t % 3 == 0 ? 0 : 16);\ncp_async_commit_group();\n" +
          kEnd,
      64);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t from = i ^ (33 * 4);
    CHECK(out[i] == (from / 4 % 3 == 0 ? 0 : in[from]));
  }
}

TEST_CASE("cp.async copies 4 bytes, or writes zeros and reads nothing") {
  if (cannot_run()) return;
  const auto in = numbers(64);
  const auto out = run_over<std::uint32_t>(
      in, in.size(),
      kBegin +
          "st_shared_u32(s + 4 * t, ~0u);\nbar_sync();\n"
          "const bool reads = t % 3 != 0;\n"
          "cp_async_4_zfill(s + 4 * t, reads ? p.in + t : p.in + p.count + t, reads ? 4 : 0);\n"
          "cp_async_commit_group();\ncp_async_wait_group<0>();\nbar_sync();\n"
          "p.out[t] = ld_shared_u32(s + 4 * (t ^ 33));",
      64);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t from = i ^ 33;
    CHECK(out[i] == (from % 3 == 0 ? 0 : in[from]));
  }
}

TEST_CASE("waiting for all groups but one completes the older ones") {
  if (cannot_run()) return;
  const auto in = numbers(3 * 4);
  const auto out =
      run_over<std::uint32_t>(in, in.size(),
                              kBegin +
                                  "if (t == 0) {\n"
                                  "  for (int group = 0; group < 3; ++group) {\n"
                                  "    cp_async_16(s + 16 * group, p.in + 4 * group);\n"
                                  "    cp_async_commit_group();\n  }\n"
                                  "  for (int group = 0; group < 3; ++group) {\n"
                                  "    if (group == 0) cp_async_wait_group<2>();\n"
                                  "    if (group == 1) cp_async_wait_group<1>();\n"
                                  "    if (group == 2) cp_async_wait_group<0>();\n"
                                  "    const Vector16 v = ld_shared_v4(s + 16 * group);\n"
                                  "    for (int i = 0; i < 4; ++i) p.out[4 * group + i] = v.word[i];\n"
                                  "  }\n}");
  CHECK(out == in);
}

TEST_CASE("an empty group counts, and a wait without committed groups returns") {
  if (cannot_run()) return;
  const auto in = numbers(64 * 4);
  const auto out = run_over<std::uint32_t>(
      in, in.size(),
      kBegin +
          "cp_async_wait_group<0>();\n"
          "cp_async_16(s + 16 * t, p.in + 4 * t);\ncp_async_commit_group();\ncp_async_commit_group();\n"
          "cp_async_wait_group<1>();\nst_shared_u32(s + 16 * t, 7);\n" +
          kEnd,
      64);
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == (i % 4 == 0 ? 7 : in[i ^ (33 * 4)]));
}

TEST_CASE("copies arrive at an mbarrier once all that their thread has issued are complete") {
  if (cannot_run_sm_90a()) return;
  const auto in = numbers(2 * 64 * 4);
  const auto out =
      run_over<std::uint32_t>(in, in.size(),
                              kBegin +
                                  "const SharedAddress bar = s + 2048;\n"
                                  "if (t == 0) mbarrier_init(bar, 64);\nbar_sync();\n"
                                  "cp_async_16(s + 16 * t, p.in + 4 * t);\ncp_async_commit_group();\n"
                                  "cp_async_16(s + 1024 + 16 * t, p.in + 256 + 4 * t);\n"
                                  "cp_async_mbarrier_arrive(bar);\nmbarrier_wait(bar, 0);\n"
                                  "for (int half = 0; half < 2; ++half) {\n"
                                  "  const Vector16 v = ld_shared_v4(s + 1024 * half + 16 * (t ^ 33));\n"
                                  "  for (int i = 0; i < 4; ++i) p.out[256 * half + 4 * t + i] = v.word[i];\n"
                                  "}",
                              64, 4096);
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == in[i ^ (33 * 4)]);
}
