// The rules of append().
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <operation/rules/check_append.h>
#include <planning/append.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace fa2;

namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

std::string text_of(const Violations& found) {
  std::string text;
  for (const Violation& violation : found) text += (text.empty() ? "" : "; ") + to_string(violation);
  return text;
}

AppendProblem contiguous() {
  return {.head_dim = 16,
          .rotary_dim = 16,
          .table_rows = 8,
          .batch = 2,
          .heads_q = 1,
          .cache_entries = 2,
          .cache_rows = 8};
}

template <class Change>
std::string broken(Change change) {
  AppendProblem problem = contiguous();
  change(problem);
  return text_of(violations_of(problem));
}

using P = AppendProblem;

/// Contiguous tensors of two sequences, with one row each.
struct Tensors {
  AppendProblem problem = contiguous();
  alignas(16) std::uint16_t k[32]{}, v[32]{}, q[32]{}, q_out[32]{}, cos[64]{}, sin[64]{};
  alignas(16) std::uint16_t k_cache[256]{}, v_cache[256]{};
  std::int32_t numbers[64]{};
  AppendArgs args;

  Tensors() {
    args.k_new = k, args.v_new = v, args.k_new_strides = args.v_new_strides = {16, 16, 16};
    args.k_cache = k_cache, args.v_cache = v_cache;
    args.k_cache_strides = args.v_cache_strides = {128, 128, 16};
    args.q = q, args.q_out = q_out, args.q_strides = args.q_out_strides = {16, 16, 16};
    args.cos = cos, args.sin = sin, args.table_stride = 8;
    args.seqlens = numbers;
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  std::string broken() const { return text_of(violations_of(problem, args, operands_of(problem, args))); }
  RowAlignment alignment() const {
    return append_kernel_of(problem, operands_of(problem, args)).problem.row_alignment;
  }
};

std::string unsound(const AppendProblem& problem, const AppendTables& tables) {
  return text_of(violations_of(problem, tables));
}

}  // namespace

TEST_CASE("append: what is wrong with the problem and with the arguments comes at once") {
  Tensors tensors;
  tensors.args.seqlens = nullptr;
  const auto all = [&] { return text_of(violations_of_call(tensors.problem, tensors.args)); };
  tensors.problem.rotary_dim = 12;
  CHECK(all().starts_with("rotary_dim = 12, must be a multiple of 8, or 0 for none; "));
  CHECK(all().find("seqlens = null") != std::string::npos);
  tensors.problem = contiguous();
  tensors.problem.batch = -1;  // no shapes
  CHECK(all() == "batch = -1, must be 0..2147483647");
}

TEST_CASE("append: rotary_dim, and columns of K and V") {
  CHECK(broken([](P&) {}) == "");
  CHECK(broken([](P& p) { p.head_dim = 12; }) ==
        "head_dim = 12, must be a multiple of 8 in 8..576; rotary_dim = 16, must be at most head_dim");
  CHECK(broken([](P& p) { p.head_dim_v = 520; }) ==
        "head_dim_v = 520, must be a multiple of 8 in 8..512, or 0 for head_dim");
  CHECK(broken([](P& p) { p.rotary_dim = 12; }) == "rotary_dim = 12, must be a multiple of 8, or 0 for none");
  CHECK(broken([](P& p) { p.rotary_dim = -8; }) == "rotary_dim = -8, must be a multiple of 8, or 0 for none");
  CHECK(broken([](P& p) { p.rotary_dim = 24; }) == "rotary_dim = 24, must be at most head_dim");
  CHECK(broken([](P& p) { p.rotary_dim = 0; }) ==
        "heads_q = 1, must be 0 without rotary_dim: nothing is done to Q");
  CHECK(broken([](P& p) { p.rotary_dim = 0, p.heads_q = 0, p.table_rows = 0; }) == "");
  CHECK(broken([](P& p) { p.table_rows = 0; }) == "table_rows = 0, must be 1..2147483647 with rotary_dim");
  CHECK(broken([](P& p) { p.dtype = static_cast<DType>(9); }).starts_with("dtype = 9"));
  CHECK(broken([](P& p) { p.rotary_style = static_cast<RotaryStyle>(2); }) ==
        "rotary_style = 2, must be halves (0) or interleaved (1)");
}

TEST_CASE("append: sizes that it has") {
  CHECK(broken([](P& p) { p.batch = -1, p.heads_kv = 0, p.seqlen_q = 0, p.seqlen_new = 0; }) ==
        "batch = -1, must be 0..2147483647; heads_kv = 0, must be 1..2147483647; seqlen_q = 0, must be "
        "1..2147483647; seqlen_new = 0, must be 1..2147483647");
  CHECK(broken([](P& p) { p.total_q = p.total_new = 3, p.seqlen_q = p.seqlen_new = 0; }) == "");
  CHECK(broken([](P& p) { p.heads_q = 0, p.seqlen_q = 0; }) == "");
  CHECK(broken([](P& p) { p.heads_q = -1, p.total_q = -1, p.total_new = -1; }).find("heads_q = -1") == 0);
  CHECK(broken([](P& p) { p.cache_entries = 0, p.cache_rows = 0; }) ==
        "cache_entries = 0, must be 1..2147483647; cache_rows = 0, must be 1..2147483647 without pages");
  CHECK(broken([](P& p) { p.page_size = 16, p.cache_rows = 0; }) ==
        "max_pages = 0, must be 1..2147483647 with pages");
  CHECK(broken([](P& p) { p.page_size = 16, p.cache_rows = 0, p.max_pages = 1; }) == "");
  CHECK(broken([](P& p) { p.page_size = 16, p.max_pages = 1 << 27; }) ==
        "page_size * max_pages = 16 * 134217728, must be at most 2147483647: lengths are of 32 bits; give "
        "fewer max_pages");
  CHECK(broken([](P& p) { p.page_size = 16, p.max_pages = (1 << 27) - 1; }) == "");
  CHECK(broken([](P& p) {
          p.batch = kMost, p.seqlen_new = 2;
        }).starts_with("rows of K * heads_kv = 4294967294 * 1, must be at most 2147483647"));
  CHECK(broken([](P& p) { p.batch = 1 << 16, p.seqlen_q = 1 << 14, p.heads_q = 2; }) ==
        "rows of Q * heads_q = 1073741824 * 2, must be at most 2147483647");
  CHECK(broken([](P& p) { p.batch = 1 << 16, p.seqlen_q = (1 << 14) - 1, p.heads_q = 2; }) == "");
  CHECK(is_empty({.batch = 0}));
  CHECK_FALSE(is_empty({}));
}

TEST_CASE("append: pointers and strides that it takes") {
  CHECK(Tensors().broken() == "");
  Tensors none;
  none.args = {};
  const std::string text = none.broken();
  for (const char* name : {"k_new = null", "v_new = null", "k_cache = null", "v_cache = null", "cos = null",
                           "sin = null", "; q = null", "q_out = null", "seqlens = null"})
    CHECK_MESSAGE(text.find(name) != std::string::npos, name);
  CHECK(text.find("cache_batch_idx") == std::string::npos);
  CHECK(text.find("rotary_seqlens") == std::string::npos);
  CHECK(text.find("page_table") == std::string::npos);

  Tensors rows;
  rows.args.k_cache_strides.row = 8;
  CHECK(rows.broken().find("k_cache_strides.row = 8, must be at least 16") != std::string::npos);
  Tensors over;
  over.args.v_cache = over.k_cache;
  CHECK(over.broken().find("must not overlap k_cache") != std::string::npos);
  over.args.v_cache = over.v;
  CHECK(over.broken().find("must not overlap v_new") != std::string::npos);
  Tensors short_cache;
  short_cache.problem.cache_entries = 1;
  CHECK(short_cache.broken() == "cache_entries = 1, must be at least batch = 2 without cache_batch_idx");
  short_cache.args.cache_batch_idx = short_cache.numbers;
  CHECK(short_cache.broken() == "");
}

TEST_CASE("append: no two sequences append to the same rows") {
  AppendProblem p = contiguous();
  p.rotary_dim = 0, p.heads_q = 0, p.seqlen_new = 2, p.cache_rows = 8;
  CHECK(unsound(p, {.seqlens = {3, 5}, .cache_batch_idx = {1, 1}}) == "");
  CHECK(unsound(p, {.seqlens = {3, 4}, .cache_batch_idx = {1, 1}}) ==
        "seqlens[1] = 4, must not lead to row 4 of entry 1, to which sequence 0 appends: give it rows of its "
        "own");
  p.page_size = 4, p.max_pages = 2, p.cache_entries = 3;
  CHECK(unsound(p, {.seqlens = {3, 2}, .page_table = {{0, 1}, {1}}}) == "");
  CHECK(unsound(p, {.seqlens = {3, 0}, .page_table = {{0, 1}, {1}}}) ==
        "seqlens[1] = 0, must not lead to row 0 of page 1, to which sequence 0 appends: give it rows of its "
        "own");
  p.total_new = 2;
  CHECK(unsound(p, {.seqlens = {3, 3}, .cu_seqlens_new = {0, 0, 2}, .page_table = {{}, {2, 1}}}) == "");
}

TEST_CASE("append: Q is rotated in place or elsewhere, and must not partly overlap itself") {
  Tensors it;
  it.args.q_out = it.q;
  CHECK(it.broken() == "");
  it.args.q_out_strides.batch = 24;
  CHECK(it.broken().find("must not overlap q") != std::string::npos);
  it.args.q_out_strides.batch = 16, it.args.q_out = it.q + 1;
  CHECK(it.broken().find("must not overlap q") != std::string::npos);
}

TEST_CASE("append: K and V may share the pages of one buffer") {
  Tensors it;
  it.args.v_cache = it.k_cache + 64;
  it.problem.cache_rows = 4;
  it.args.k_cache_strides = it.args.v_cache_strides = {128, 64, 16};  // (entry, 2, row, dim)
  CHECK(it.broken() == "");
  it.args.v_cache_strides.batch = 120;
  CHECK(it.broken().find("must not overlap k_cache") != std::string::npos);
}

TEST_CASE("append: tables are required with what they describe, and rejected without") {
  Tensors it;
  it.problem.page_size = 4, it.problem.cache_entries = 4, it.problem.max_pages = 2;
  it.problem.total_new = it.problem.total_q = 2;
  it.args.cache_batch_idx = it.numbers;
  const std::string missing = it.broken();
  for (const char* rule : {"page_table = null", "cu_seqlens_new = null", "cu_seqlens_q = null",
                           "must be null with pages: the rows of page_table say where sequences lie"})
    CHECK_MESSAGE(missing.find(rule) != std::string::npos, rule);
  it.args.cache_batch_idx = nullptr;
  it.args.k_cache_strides = it.args.v_cache_strides = {64, 64, 16};
  it.args.page_table = it.args.cu_seqlens_new = it.args.cu_seqlens_q = it.numbers;
  CHECK(it.broken() == "");
  it.problem = contiguous();
  it.problem.rotary_dim = 0, it.problem.heads_q = 0;
  it.args.rotary_seqlens = it.numbers;
  const std::string text = it.broken();
  for (const char* rule :
       {"without page_size", "without total_new", "without heads_q and total_q", "without rotary_dim"})
    CHECK_MESSAGE(text.find(rule) != std::string::npos, rule);
  for (const char* name :
       {"page_table", "cu_seqlens_new", "cu_seqlens_q", "cos", "sin", "rotary_seqlens", "q", "q_out"})
    CHECK_MESSAGE(
        (text.starts_with(name) || text.find("; " + std::string(name) + " = ") != std::string::npos), name);
}

TEST_CASE("append: the rows of all tensors decide how they are read") {
  Tensors it;
  CHECK(it.alignment() == RowAlignment::bytes16);
  it.args.k_cache_strides.batch = 132;
  CHECK(it.alignment() == RowAlignment::element);
  it.args.k_cache_strides.batch = 128;
  it.args.q_out = it.q_out + 4;
  CHECK(it.alignment() == RowAlignment::element);
  it.args.q_out = it.q_out;
  it.args.table_stride = 12;
  CHECK(it.alignment() == RowAlignment::element);
  it.problem.float32_tables = true;
  CHECK(it.alignment() == RowAlignment::bytes16);
  it.args.sin = it.sin + 2;
  CHECK(it.alignment() == RowAlignment::element);
  it.args.sin = it.sin;
  it.args.k_new_strides.row = -16;
  CHECK(it.alignment() == RowAlignment::bytes16);
}

TEST_CASE("append: the lengths that its tables may hold") {
  AppendProblem p = contiguous();
  p.seqlen_new = 3, p.table_rows = 100;
  CHECK(unsound(p, {.seqlens = {0, 5}}) == "");
  CHECK(unsound(p, {.seqlens = {5, 6}}) ==
        "seqlens[1] = 6, must be at most 5: 3 rows are new, and the cache has 8 of a sequence");
  CHECK(unsound(p, {.seqlens = {-1, kMost}}) == "seqlens[0] = -1, must be at least 0; 1 more is wrong");
  p.table_rows = 7;
  CHECK(unsound(p, {.seqlens = {0, 5}}) ==
        "seqlens[1] = 5, must be at most 4: 3 positions are needed, and cos and sin have 7");
  CHECK(unsound(p, {.seqlens = {0, 5}, .rotary_seqlens = {4, 0}}) == "");
  CHECK(unsound(p, {.seqlens = {0, 5}, .rotary_seqlens = {5, -1}}) ==
        "rotary_seqlens[0] = 5, must be at most 4: 3 positions are needed, and cos and sin have 7; 1 more is "
        "wrong");
  p.seqlen_q = 4;
  CHECK(unsound(p, {.seqlens = {4, 0}}) ==
        "seqlens[0] = 4, must be at most 3: 4 positions are needed, and cos and sin have 7");
  p.causal_positions = false;
  CHECK(unsound(p, {.seqlens = {4, 0}}) == "");
  CHECK(unsound(p, {.seqlens = {0, 1}, .cache_batch_idx = {2, 1}}) ==
        "cache_batch_idx[0] = 2, must be in 0..1, an entry of the cache");
}

TEST_CASE("append: the borders and pages that its tables may hold") {
  AppendProblem p = contiguous();
  p.total_new = 6, p.total_q = 2, p.table_rows = 100;
  CHECK(unsound(p, {.seqlens = {8, 2}, .cu_seqlens_new = {0, 0, 6}, .cu_seqlens_q = {0, 1, 2}}) == "");
  CHECK(unsound(p, {.seqlens = {8, 3}, .cu_seqlens_new = {0, 0, 6}, .cu_seqlens_q = {0, 1, 2}}) ==
        "seqlens[1] = 3, must be at most 2: 6 rows are new, and the cache has 8 of a sequence");
  CHECK(unsound(p, {.seqlens = {0, 0}, .cu_seqlens_new = {0, 7, 6}, .cu_seqlens_q = {2, 1, 2}}) ==
        "cu_seqlens_new[1] = 7, must be at most total_new = 6; 1 more is wrong; cu_seqlens_q[1] = 1, must be "
        "at "
        "least cu_seqlens_q[0] = 2");
  p = contiguous();
  p.page_size = 4, p.max_pages = 3, p.cache_entries = 6, p.seqlen_new = 2, p.table_rows = 100;
  CHECK(unsound(p, {.seqlens = {3, 8}, .page_table = {{0, 1}, {-1, 99, 5}}}) == "");
  CHECK(unsound(p, {.seqlens = {3, 8}, .page_table = {{6, 6}, {-1, 99, -2}}}) ==
        "page_table[0][0] = 6, must be in 0..5, a page of the cache; 1 more is wrong; page_table[1][2] = -2, "
        "must be in 0..5, a page of the cache");
  CHECK(unsound(p, {.seqlens = {3, 11}, .page_table = {{0, 1}, {-1, 99, 5}}}) ==
        "seqlens[1] = 11, must be at most 10: 2 rows are new, and the cache has 12 of a sequence");
}

TEST_CASE("append: a cache of 8 bits, and the factors of its rows") {
  Tensors it;
  float of_keys[4]{}, of_values[4]{};
  it.args.k_descale = of_keys, it.args.v_descale = of_values;
  it.args.k_descale_strides = {2, 1, 0};
  CHECK(it.broken() ==
        "k_descale = given, must be null, or the problem's kv_type e4m3; v_descale = given, must be null, or "
        "the problem's kv_type e4m3");
  it.problem.kv_type = KvType::e4m3;
  CHECK(it.broken() == "");
  it.args.v_descale_strides = {0, 0, 0};
  CHECK(it.broken() == "");
  it.args.k_descale = reinterpret_cast<const float*>(it.k_cache);
  CHECK(it.broken().find("k_cache = ") == 0);
  CHECK(it.broken().find("must not overlap k_descale") != std::string::npos);
  it.args.k_descale = it.args.v_descale = nullptr;
  CHECK(it.broken() == "");
  it.args.k_cache = reinterpret_cast<char*>(it.k_cache) + 8;
  it.args.v_cache_strides.row = 24;
  const std::string text = it.broken();
  CHECK(text.find("must be a multiple of 16 bytes: rows of 8-bit elements") != std::string::npos);
  CHECK(text.find("v_cache_strides.row = 24, must be a multiple of 16 elements: rows of 8-bit elements") !=
        std::string::npos);
  it.problem.head_dim = 24, it.problem.rotary_dim = 16;
  CHECK(text_of(violations_of(it.problem)) == "head_dim = 24, must be a multiple of 16 with kv_type e4m3");
}

TEST_CASE("append: a cache of 8 bits has a kernel of its own, whose sources may be aligned to one element") {
  Tensors it;
  const auto kernel = [&] { return append_kernel_of(it.problem, operands_of(it.problem, it.args)).problem; };
  CHECK(kernel().kv_type == KvType::same);
  it.problem.kv_type = KvType::e4m3;
  float factor = 1;
  it.args.k_descale = it.args.v_descale = &factor;
  it.args.k_descale_strides = {1, 1, 1};
  CHECK(kernel().kv_type == KvType::e4m3);
  CHECK(it.alignment() == RowAlignment::bytes16);
  it.args.k_new = it.k + 1;
  CHECK(it.alignment() == RowAlignment::element);
  CHECK(it.broken() == "");
}
