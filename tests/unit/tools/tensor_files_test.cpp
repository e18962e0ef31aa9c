// Tensors between files and the library: layouts, rounding, wrong shapes; and FLOPs and quantiles.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <tests/support/temporary_directory.h>
#include <tools/flops.h>
#include <tools/launch_timer.h>
#include <tools/tensor_files.h>

#include <limits>

namespace {

using namespace fa2;
using namespace fa2::tools;

HostTensor zeros(std::int64_t batch, std::int64_t rows, std::int64_t heads, std::int64_t dim) {
  HostTensor tensor;
  tensor.extents = {batch, rows, heads, dim};
  return tensor;
}

void write(const std::filesystem::path& path, const HostTensor& tensor, bool as_float32) {
  OutputFile file(path);
  write_tensor(file, tensor, as_float32);
  file.commit();
}

double count_flops(const AttentionProblem& p) {
  double pairs = 0;
  for (std::int64_t i = 0; i < p.seqlen_q; ++i) {
    for (std::int64_t j = 0; j < p.seqlen_k; ++j) pairs += reference::is_visible(p, i, j);
  }
  return pairs * 2 * (p.head_dim + p.head_dim_v) * static_cast<double>(p.batch * p.heads_q);
}

}  // namespace

TEST_CASE("tensor files: both layouts hold the same elements") {
  const test::TemporaryDirectory dir;
  std::vector<float> bshd(2 * 3 * 2 * 1), bhsd(2 * 2 * 3 * 1);
  for (std::size_t b = 0, at = 0; b < 2; ++b) {
    for (std::size_t s = 0; s < 3; ++s) {
      for (std::size_t h = 0; h < 2; ++h, ++at) {
        bshd[at] = static_cast<float>(100 * b + 10 * s + h);
        bhsd[(b * 2 + h) * 3 + s] = bshd[at];
      }
    }
  }
  write_npy(dir / "bshd.npy", {{2, 3, 2, 1}, bshd});
  write_npy(dir / "bhsd.npy", {{2, 2, 3, 1}, bhsd});
  const HostTensor a = read_tensor(dir / "bshd.npy", Layout::bshd, ElementType::f16);
  const HostTensor b = read_tensor(dir / "bhsd.npy", Layout::bhsd, ElementType::f16);
  CHECK(a.logical().values == b.logical().values);
  CHECK(a.logical().at(1, 0, 2, 0) == 120);
  CHECK(b.extents.rows == 3);
  write(dir / "back.npy", b, true);
  CHECK(std::get<1>(read_npy(dir / "back.npy", {4, 4}).values) == bhsd);
}

TEST_CASE("tensor files: packed ones have no batch") {
  const test::TemporaryDirectory dir;
  write_npy(dir / "x.npy", {{3, 2, 1}, std::vector<float>{1, 2, 3, 4, 5, 6}});
  const HostTensor rows_first = read_tensor(dir / "x.npy", Layout::bshd, ElementType::f16, true);
  CHECK(rows_first.extents.rows == 3);
  CHECK(rows_first.logical().at(0, 1, 2, 0) == 6);
  const HostTensor heads_first = read_tensor(dir / "x.npy", Layout::bhsd, ElementType::f16, true);
  CHECK(heads_first.extents.heads == 3);
  CHECK(heads_first.logical().at(0, 2, 0, 0) == 5);
  write(dir / "back.npy", heads_first, true);
  CHECK(read_npy(dir / "back.npy", {3, 3}).shape == std::vector<std::int64_t>{3, 2, 1});
}

TEST_CASE("tensor files: tables of lengths make a problem varlen") {
  HostTensor q = zeros(1, 11, 6, 64), k = zeros(1, 13, 3, 64);
  q.extents.packed = k.extents.packed = true;
  const SequenceTables tables{
      .cu_seqlens_q = {0, 4, 4, 10}, .cu_seqlens_k = {0, 9, 5, 13}, .seqused_q = {}, .seqused_k = {1, 2, 3}};
  const AttentionProblem p = problem_of(q, k, k, DType::f16, MaskKind::none, tables);
  CHECK(p.varlen);
  CHECK(p.batch == 3);
  CHECK(p.total_q == 11);
  CHECK(p.total_k == 13);
  CHECK(p.seqlen_q == 6);
  CHECK(p.seqlen_k == 9);
  const AttentionArgs pointers = tables.pointers(p);
  CHECK(pointers.cu_seqlens_k == tables.cu_seqlens_k.data());
  CHECK(pointers.seqused_q == nullptr);
  q.extents.rows = 0;  // then there are no borders
  const AttentionProblem empty = problem_of(q, k, k, DType::f16, MaskKind::none, tables);
  CHECK(tables.pointers(empty).cu_seqlens_q == nullptr);
  CHECK(empty.seqlen_q == 0);
  CHECK(output_of(empty, q).extents.shape(Layout::bshd) == std::vector<std::int64_t>{0, 6, 64});
}

TEST_CASE("tensor files: inputs are rounded, and rejected if they overflow") {
  const test::TemporaryDirectory dir;
  const float infinity = std::numeric_limits<float>::infinity();
  write_npy(dir / "x.npy", {{1, 1, 1, 3}, std::vector<float>{1.0f + 0x1p-11f, -infinity, 70000}});
  CHECK_THROWS_WITH_AS(read_tensor(dir / "x.npy", Layout::bshd, ElementType::f16),
                       doctest::Contains("pass --dtype bf16"), Error);
  const HostTensor rounded = read_tensor(dir / "x.npy", Layout::bshd, ElementType::bf16);
  CHECK(rounded.was_float32);
  CHECK(rounded.bits == std::vector<std::uint16_t>{0x3f80, 0xff80, 0x4789});

  write_npy(dir / "h.npy", {{1, 1, 1, 2}, std::vector<std::uint16_t>{0x7e01, 0x3555}});
  CHECK(read_tensor(dir / "h.npy", Layout::bshd, ElementType::f16).bits ==
        std::vector<std::uint16_t>{0x7e01, 0x3555});
  CHECK(read_tensor(dir / "h.npy", Layout::bshd, ElementType::bf16).bits[1] == 0x3eab);
  write(dir / "same.npy", read_tensor(dir / "h.npy", Layout::bshd, ElementType::f16), false);
  CHECK(read_npy(dir / "same.npy", {4, 4}).is_float16());
}

TEST_CASE("tensor files: shapes that do not fit are all named") {
  const HostTensor q = zeros(2, 5, 6, 64);
  CHECK(problem_of(q, zeros(2, 7, 3, 64), zeros(2, 7, 3, 32), DType::bf16, MaskKind::none).head_dim_v == 32);
  try {
    problem_of(q, zeros(1, 7, 4, 32), zeros(2, 8, 3, 0), DType::f16, MaskKind::none);
    FAIL("no error");
  } catch (const InvalidRequest& error) {
    std::vector<std::string> fields;
    for (const Violation& violation : error.violations()) fields.push_back(violation.field);
    CHECK(fields == std::vector<std::string>{"k's batch", "k's head_dim", "v's seqlen", "v's heads",
                                             "v's head_dim", "heads_kv"});
  }
}

TEST_CASE("flops: visible pairs, which are half of all in a causal square") {
  AttentionProblem p;
  p.head_dim = 64;
  p.head_dim_v = 32;
  p.batch = 3;
  p.heads_q = 2;
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
    p.mask = mask;
    for (const auto& [seqlen_q, seqlen_k] : {std::pair{1, 9}, {4, 9}, {9, 4}, {9, 1}, {5, 0}}) {
      p.seqlen_q = seqlen_q;
      p.seqlen_k = seqlen_k;
      CAPTURE(to_string(p));
      CHECK(flops_of(p) == doctest::Approx(count_flops(p)));
    }
  }
  p.mask = MaskKind::causal_bottom_right;
  p.seqlen_q = p.seqlen_k = 8;
  CHECK(flops_of(p) == 0.5 * 3 * 2 * 8 * 8 * 2 * (64 + 32));
  CHECK(tflops(p, 0) == 0);
}

TEST_CASE("spread: interpolated quantiles of unsorted samples") {
  const Spread spread = spread_of({5, 1, 3, 2, 4});
  CHECK(spread.median == 3);
  CHECK(spread.p10 == doctest::Approx(1.4));
  CHECK(spread.p90 == doctest::Approx(4.6));
  CHECK(spread_of({7}).p90 == 7);
}
