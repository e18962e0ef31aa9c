// fa2_merge() has the same bits as merge(), and reports every mistake of a call.
#include <doctest/doctest.h>
#include <fa2/c_merge.h>
#include <fa2/merge.h>
#include <runtime/device.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::int64_t kParts = 3, kBatch = 2, kHeads = 2, kRows = 5, kDim = 64;

fa2_merge_problem some_problem() {
  fa2_merge_problem problem = FA2_MERGE_PROBLEM_INIT;
  problem.head_dim = kDim;
  problem.parts = kParts, problem.batch = kBatch, problem.heads = kHeads, problem.seqlen = kRows;
  return problem;
}

/// The memory of a call with random inputs.
struct Memory {
  static constexpr std::size_t kAllRows = kBatch * kHeads * kRows;

  DeviceBuffer parts{kParts * kAllRows * kDim * 2}, lse_parts{kParts * kAllRows * 4};
  DeviceBuffer out{kAllRows * kDim * 2}, lse{kAllRows * 4};

  Memory() {
    const auto bits =
        bits_of(random_tensor({kParts, kBatch * kHeads, kRows, kDim}, DType::f16, 3), DType::f16);
    parts.upload(bits.data(), parts.size());
    const reference::Tensor sums = random_tensor({kParts, kBatch * kHeads, kRows, 1}, DType::f16, 4);
    const std::vector<float> values(sums.values.begin(), sums.values.end());
    lse_parts.upload(values.data(), lse_parts.size());
  }

  fa2_merge_args args() const {
    const auto strided = [](const DeviceBuffer& buffer, std::int64_t dim) {
      return fa2_tensor{buffer.data(), {kHeads * kRows * dim, kRows * dim, dim}};
    };
    fa2_merge_args args = FA2_MERGE_ARGS_INIT;
    args.parts = strided(parts, kDim), args.part_stride = kAllRows * kDim;
    args.lse_parts = strided(lse_parts, 1), args.lse_part_stride = kAllRows;
    args.out = strided(out, kDim);
    args.lse = static_cast<float*>(lse.data());
    return args;
  }

  /// Returns O's bits, then LSE's.
  std::vector<std::uint16_t> results() const {
    std::vector<std::uint16_t> all = downloaded<std::uint16_t>(out);
    const auto sums = downloaded<std::uint16_t>(lse);
    all.insert(all.end(), sums.begin(), sums.end());
    return all;
  }
};

bool says(const std::string& part) {
  CAPTURE(fa2_last_error());
  return std::string(fa2_last_error()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("c merge: has the bits of merge()") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const fa2_merge_problem problem = some_problem();
  const Memory in_c, in_cpp;
  const fa2_merge_args args = in_c.args();
  REQUIRE_MESSAGE(fa2_merge(nullptr, &problem, &args, nullptr) == FA2_OK, fa2_last_error());
  const TensorStrides rows = TensorStrides::bhsd(kRows, kHeads, kDim);
  merge({.head_dim = kDim, .parts = kParts, .batch = kBatch, .heads = kHeads, .seqlen = kRows},
        {.parts = in_cpp.parts.data(),
         .part_stride = args.part_stride,
         .parts_strides = rows,
         .lse_parts = static_cast<const float*>(in_cpp.lse_parts.data()),
         .lse_part_stride = args.lse_part_stride,
         .lse_parts_strides = TensorStrides::bhsd(kRows, kHeads, 1),
         .out = in_cpp.out.data(),
         .out_strides = rows,
         .lse = static_cast<float*>(in_cpp.lse.data())});
  CHECK(in_c.results() == in_cpp.results());
}

TEST_CASE("c merge: one message lists all mistakes of a call") {
  fa2_merge_problem problem = some_problem();
  fa2_merge_args args = FA2_MERGE_ARGS_INIT;
  CHECK(fa2_merge(nullptr, nullptr, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("problem = NULL"));
  CHECK(says("args = NULL"));
  problem.dtype = 7, problem.lse_base = 2;
  args.empty_row_lse = 2;
  CHECK(fa2_merge(nullptr, &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  for (const char* const part : {"dtype = 7", "lse_base = 2", "empty_row_lse = 2"}) CHECK(says(part));
  problem = some_problem();
  problem.struct_size = 4, args.struct_size = 8;
  CHECK(fa2_merge(nullptr, &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("problem = a struct with struct_size 4, must have 56, "));
  CHECK(says("args = a struct with struct_size 8, must have 128, "));
  problem = some_problem();
  problem.head_dim = 60, problem.parts = 0;
  args = FA2_MERGE_ARGS_INIT;
  CHECK(fa2_merge(nullptr, &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("head_dim = 60"));
  CHECK(says("parts = 0"));
}
