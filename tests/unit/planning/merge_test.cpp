// The rules of merge().
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <planning/merge.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace fa2;

namespace {

std::string text_of(const Violations& found) {
  std::string text;
  for (const Violation& violation : found) text += (text.empty() ? "" : "; ") + to_string(violation);
  return text;
}

std::string broken(const MergeProblem& problem) {
  return text_of(violations_of(problem));
}

/// Two partial outputs of 2 rows of 8 float32, and their merged output.
struct Tensors {
  MergeProblem problem{.float32_parts = true, .float32_output = true, .head_dim = 8, .parts = 2, .seqlen = 2};
  std::vector<float> parts = std::vector<float>(32), o = std::vector<float>(16), lse = std::vector<float>(8);
  MergeArgs args;

  Tensors() {
    args.parts = parts.data(), args.part_stride = 16, args.parts_strides = {16, 16, 8};
    args.lse_parts = lse.data(), args.lse_part_stride = 2, args.lse_parts_strides = {2, 2, 1};
    args.out = o.data(), args.out_strides = {16, 16, 8};
    args.lse = lse.data() + 4;
  }
  std::string broken() const { return text_of(violations_of(args, operands_of(problem, args))); }
  RowAlignment alignment() const {
    return merge_kernel_of(problem, operands_of(problem, args)).problem.row_alignment;
  }
};

}  // namespace

TEST_CASE("merge: sizes") {
  CHECK(broken({}) == "");
  CHECK(broken({.head_dim = 12}) == "head_dim = 12, must be a multiple of 8 in 8..512");
  CHECK(broken({.head_dim = 520}) == "head_dim = 520, must be a multiple of 8 in 8..512");
  CHECK(broken({.parts = 0}) == "parts = 0, must be 1..65536");
  CHECK(broken({.parts = 65537}) == "parts = 65537, must be 1..65536");
  CHECK(broken({.batch = -1, .seqlen = -2}) ==
        "batch = -1, must be 0..2147483647; seqlen = -2, must be 0..2147483647");
  CHECK(broken({.batch = 65536, .heads = 32, .seqlen = 1024})
            .starts_with("batch * heads * seqlen = 65536 * 32"));
  CHECK(broken({.batch = 65536, .heads = 32, .seqlen = 1023}) == "");
  CHECK(broken({.dtype = static_cast<DType>(9)}).starts_with("dtype = 9"));
  CHECK(is_empty({.batch = 0}));
  CHECK(is_empty({.heads = 0}));
  CHECK(is_empty({.seqlen = 0}));
  CHECK_FALSE(is_empty({}));
}

TEST_CASE("merge: what is wrong with the problem and with the arguments comes at once") {
  Tensors tensors;
  tensors.args.parts = nullptr;
  const auto all = [&] { return text_of(violations_of_call(tensors.problem, tensors.args)); };
  tensors.problem.head_dim = 12;
  CHECK(all().starts_with("head_dim = 12, must be a multiple of 8 in 8..512; parts = null"));
  tensors.problem.batch = -1;  // no shapes
  CHECK(all() == "head_dim = 12, must be a multiple of 8 in 8..512; batch = -1, must be 0..2147483647");
  tensors.problem = {.parts = 1 << 30};
  CHECK(all() == "parts = 1073741824, must be 1..65536");
}

TEST_CASE("merge: strides of parts may be any number") {
  Tensors tensors;
  tensors.problem.parts = 3;
  tensors.args.part_stride = std::numeric_limits<std::int64_t>::max();
  tensors.args.lse_part_stride = std::numeric_limits<std::int64_t>::min();
  CHECK(operands_of(tensors.problem, tensors.args).size() == 8);
}

TEST_CASE("merge: pointers and strides") {
  CHECK(Tensors().broken() == "");
  Tensors none;
  none.args = {};
  const std::string text = none.broken();
  for (const char* name : {"parts = null", "lse_parts = null", "out = null"})
    CHECK(text.find(name) != std::string::npos);
  CHECK(text.find("lse = null") == std::string::npos);
  Tensors over;
  over.args.out = over.parts.data() + 16;  // the second partial output
  CHECK(over.broken().find("must not overlap parts") != std::string::npos);
  over.args.part_stride = 0;
  CHECK(over.broken() == "");
  Tensors rows;
  rows.args.out_strides.row = 4;
  CHECK(rows.broken().find("out_strides.row = 4, must be at least 8") != std::string::npos);
  Tensors lse;
  lse.args.lse = lse.lse.data() + 3;
  CHECK(lse.broken().find("must not overlap lse_parts") != std::string::npos);
  Tensors what;
  what.args.empty_row_lse = static_cast<EmptyRowLse>(7);
  CHECK(what.broken().starts_with("empty_row_lse = 7"));
}

TEST_CASE("merge: the rows of every partial output and of O decide how they are read") {
  alignas(16) static float aligned[32];
  Tensors it;
  it.args.parts = aligned;
  it.problem.parts = 1;
  alignas(16) static float output[20];
  it.args.out = output;
  CHECK(it.alignment() == RowAlignment::bytes16);
  it.args.out = output + 1;
  CHECK(it.alignment() == RowAlignment::element);
  it.args.out = output;
  it.problem.parts = 2;
  CHECK(it.alignment() == RowAlignment::bytes16);
  it.args.part_stride = 15;
  CHECK(it.alignment() == RowAlignment::element);
  it.args.part_stride = 16;
  it.args.parts_strides.row = -8;
  CHECK(it.alignment() == RowAlignment::bytes16);
}
