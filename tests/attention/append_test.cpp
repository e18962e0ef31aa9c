// append(): every new row is stored where the tables say, rotated for its position, and nothing else is
// written.
#include <doctest/doctest.h>
#include <fa2/append.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <generator/kernel_source.h>
#include <interpreter/host_compiler.h>
#include <interpreter/interpreted_kernel.h>
#include <interpreter/options.h>
#include <planning/append.h>
#include <runtime/compiler.h>
#include <runtime/device.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "../support/append_call.h"
#include "../support/temporary_directory.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

/// Returns a page table of `sequences` rows and `columns` columns with pages in random order.
std::vector<std::vector<std::int32_t>> shuffled_pages(std::int64_t sequences, std::int64_t columns) {
  std::vector<std::int32_t> pages(static_cast<std::size_t>(sequences * columns));
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), std::mt19937(11));
  std::vector<std::vector<std::int32_t>> table;
  for (auto row = pages.begin(); row != pages.end(); row += columns) table.emplace_back(row, row + columns);
  return table;
}

/// Replaces the entries of pages that the call does not write by numbers of no page. No kernel may read them.
void spoil_unwritten_pages(const AppendProblem& p, AppendTables& tables) {
  for (std::size_t b = 0; b < tables.page_table.size(); ++b) {
    const std::int64_t begin = tables.seqlens[b], end = begin + p.seqlen_new;
    for (std::int64_t page = 0; page < p.max_pages; ++page) {
      if ((page + 1) * p.page_size <= begin || page * p.page_size >= end)
        tables.page_table[b][static_cast<std::size_t>(page)] = page % 2 == 0 ? kMost : -1;
    }
  }
}

/// Launches the kernel without checking the tables first.
void launch_unchecked(const AppendCall& call) {
  const Device& gpu = device(device_under_test());
  const std::vector<Operand> operands = operands_of(call.problem, call.args);
  const KernelSource source = render(append_kernel_of(call.problem, operands).spec(gpu.arch));
  const auto compiler = gpu.arch.interpreted ? interpreter::make_host_compiler() : make_nvrtc_compiler();
  const KernelBinary binary = compiler->compile(source);
  const auto kernel = gpu.arch.interpreted ? interpreter::load_interpreted_kernel(
                                                 binary, interpreter::options_from_environment())
                                           : load_cuda_kernel(binary, gpu.ordinal);
  launch(plan_append(call.problem, kernel), call.args, operands, nullptr, nullptr);
}

void launch_unchecked_and_expect(const AppendProblem& problem, const AppendTables& tables) {
  const AppendCall call(problem, tables);
  launch_unchecked(call);
  const std::string wrong = call.wrong();
  CHECK_MESSAGE(wrong.empty(), wrong);
}

}  // namespace

TEST_CASE("append: both styles of rotation, over some columns and over all, with tables of either type") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  AppendProblem problem = small_append();
  problem.heads_q = 3, problem.heads_kv = 2;
  each_rotation(
      problem, {{64, 64, 64}, {24, 40, 8}, {128, 64, 32}, {72, 72, 72}, {40, 128, 40}, {256, 256, 64}},
      [&](const AppendProblem& p, int i) {
        append_and_expect(context, AppendCall(p, {.seqlens = {0, 9, 4}}, {.shift = i % 7 == 0 ? 1 : 0}));
      });
}

TEST_CASE("append: rows that are aligned to one element, in every style") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const RotaryStyle style : {RotaryStyle::halves, RotaryStyle::interleaved}) {
    for (const bool float32_tables : {false, true}) {
      AppendProblem p = small_append();
      p.rotary_style = style, p.float32_tables = float32_tables;
      p.head_dim = 32;
      append_and_expect(context, AppendCall(p, {.seqlens = {2, 7, 0}}, {.shift = 1}));
    }
  }
}

TEST_CASE("append: without rotation K and V are copied bit for bit") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const int shift : {0, 1}) {
    AppendProblem p = small_append();
    p.rotary_dim = 0, p.heads_q = p.table_rows = 0, p.heads_kv = 2;
    append_and_expect(context, AppendCall(p, {.seqlens = {9, 1, 4}}, {.shift = shift}));
  }
}

TEST_CASE("append: pages of any size, in either layout, at every page boundary") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  int i = 0;
  for (const std::int32_t page : {1, 7, 16, 64, 256}) {
    for (const bool heads_first : {false, true}) {
      AppendProblem p{.dtype = ++i % 2 == 0 ? DType::bf16 : DType::f16,
                      .head_dim = 16,
                      .rotary_dim = 16,
                      .rotary_style = heads_first ? RotaryStyle::halves : RotaryStyle::interleaved,
                      .table_rows = 3 * page + 4};
      p.batch = 6, p.heads_kv = 2, p.page_size = page, p.max_pages = page == 1 ? 7 : page == 7 ? 4 : 3;
      p.cache_entries = p.batch * p.max_pages;
      p.seqlen_new = page == 7 ? 9 : 2;  // more than a page holds
      AppendTables tables{.seqlens = {0, page - 1, page, page + 1, 2 * page - 1, page - 2},
                          .page_table = shuffled_pages(p.batch, p.max_pages)};
      tables.seqlens[5] = std::max(tables.seqlens[5], 0);
      spoil_unwritten_pages(p, tables);
      INFO("page ", page, " heads first ", heads_first);
      append_and_expect(context,
                        AppendCall(p, tables, {.heads_first = heads_first, .shared_buffer = i % 3 == 0}));
    }
  }
}

TEST_CASE("append: cache entries in any order, with left padding") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  AppendProblem p = small_append();
  p.cache_entries = 7;
  AppendTables tables{.seqlens = {5, 0, 9}, .cache_batch_idx = {6, 0, 3}};
  append_and_expect(context, AppendCall(p, tables, {.heads_first = true}));
  tables.rotary_seqlens = {3, 0, 2};  // 2, 0 and 7 rows of left padding
  append_and_expect(context, AppendCall(p, tables, {.shared_buffer = true}));
  tables.cache_batch_idx.clear();
  tables.rotary_seqlens = {17, 0, 10};
  append_and_expect(context, AppendCall(p, tables));
}

TEST_CASE("append: packed rows, with empty sequences and rows of no sequence") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  AppendProblem p = small_append();
  p.batch = 5, p.cache_entries = 5, p.total_new = 12, p.heads_kv = 2;
  AppendTables tables{.seqlens = {1, 12, 2, 0, 3}, .cu_seqlens_new = {1, 1, 1, 6, 10, 11}};
  for (const bool packed_q : {false, true}) {
    for (const bool causal : {false, true}) {
      p.causal_positions = causal;
      p.total_q = packed_q ? 9 : 0;
      tables.cu_seqlens_q = {};
      if (packed_q) tables.cu_seqlens_q = {0, 0, 2, 7, 7, 8};
      append_and_expect(context, AppendCall(p, tables));
    }
  }
  p.page_size = 4, p.max_pages = 3, p.cache_entries = 15;
  tables.page_table = shuffled_pages(5, 3);
  append_and_expect(context, AppendCall(p, tables));
}

TEST_CASE(
    "append: Q rotated at the positions of its rows or at the first new position, in place and elsewhere") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const bool causal : {false, true}) {
    for (const bool in_place : {false, true}) {
      for (const RotaryStyle style : {RotaryStyle::halves, RotaryStyle::interleaved}) {
        AppendProblem p = small_append();
        p.causal_positions = causal, p.rotary_style = style;
        p.head_dim = 40, p.seqlen_q = 5, p.seqlen_new = 2;
        INFO("causal ", causal, " in place ", in_place);
        append_and_expect(context, AppendCall(p, {.seqlens = {0, 10, 5}}, {.in_place = in_place}));
      }
    }
  }
}

TEST_CASE("append: rows whose table entry names no place are not stored, whatever the tables hold") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AppendProblem p = small_append();
  p.batch = 6, p.cache_entries = 6;
  launch_unchecked_and_expect(p, {.seqlens = {-3, 10, 12, kMost, 0, -1}});
  launch_unchecked_and_expect(p,
                              {.seqlens = {-3, -2, -1, 0, 1, -kMost}, .rotary_seqlens = {0, 1, 2, 3, 4, 5}});
  launch_unchecked_and_expect(p, {.seqlens = {0, 1, 2, 3, 4, 5}, .cache_batch_idx = {6, -1, 0, kMost, 5, 3}});
  launch_unchecked_and_expect(p,
                              {.seqlens = {0, 1, 2, 3, 4, 5}, .rotary_seqlens = {18, -1, kMost, 20, 0, 17}});
  AppendProblem paged = p;
  paged.page_size = 2, paged.max_pages = 3;
  launch_unchecked_and_expect(
      paged, {.seqlens = {0, 3, 4, 5, 6, kMost},
              .page_table = {{1, 6, 0}, {0, -1, 4}, {0, 0, 3}, {0, 0, 5}, {0, 0, 0}, {0, 0, 0}}});
  AppendProblem packed = p;
  packed.total_new = 9, packed.total_q = 9;
  launch_unchecked_and_expect(packed, {.seqlens = {0, 1, 2, 3, 4, 5},
                                       .cu_seqlens_new = {-2, 2, 2, 4, 7, 8, 99},
                                       .cu_seqlens_q = {-1, 1, 5, 5, 5, kMost, kMost}});
}

TEST_CASE("append: errors in the tables are reported before anything is written") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const bool is_gpu = device_under_test() != kInterpreterDevice;
  if (is_gpu) setenv("FA2_CHECK", "1", 1);
  Context context(untuned());
  if (is_gpu) unsetenv("FA2_CHECK");
  const auto expect_refused = [&](const AppendProblem& problem, const AppendTables& tables,
                                  const char* rule) {
    const AppendCall call(problem, tables);
    CHECK_THROWS_WITH_AS(context.append(call.problem, call.args), doctest::Contains(rule), InvalidRequest);
    CHECK(call.is_untouched());
  };
  AppendProblem p = small_append();
  expect_refused(p, {.seqlens = {0, 10, 0}}, "seqlens[1] = 10, must be at most 9: 3 rows are new");
  expect_refused(p, {.seqlens = {0, 9, 0}, .cache_batch_idx = {0, 1, 3}}, "cache_batch_idx[2] = 3");
  expect_refused(p, {.seqlens = {0, 9, 0}, .rotary_seqlens = {0, 1, 18}}, "rotary_seqlens[2] = 18");
  p.page_size = 4, p.max_pages = 3;
  AppendTables tables{.seqlens = {0, 9, 0}, .page_table = {{0, 9, 9}, {9, 9, 3}, {1, -1, -1}}};
  expect_refused(p, tables, "page_table[1][2] = 3, must be in 0..2, a page of the cache");
  tables.page_table[1][2] = 2;
  append_and_expect(context, AppendCall(p, tables));
}

TEST_CASE("append: a cache beyond 2^31 elements") {
  if (device_under_test() != kInterpreterDevice) {
    MESSAGE("skipped: memory that is not touched costs nothing on the interpreter alone");
    return;
  }
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 64;
  const AppendProblem p{.head_dim = 8, .cache_entries = 2, .cache_rows = 3};
  const std::vector<std::uint16_t> of_k = {1, 2, 3, 4, 5, 6, 7, 8}, of_v = {8, 7, 6, 5, 4, 3, 2, 1};
  const std::int32_t numbers[] = {2, 1};
  DeviceBuffer k(16), v(16), number(8), k_cache((kFar + 32) * 2), v_cache(96);
  k.upload(of_k.data(), 16), v.upload(of_v.data(), 16), number.upload(numbers, 8);
  AppendArgs args;
  args.k_new = k.data(), args.v_new = v.data();
  args.k_cache = k_cache.data(), args.k_cache_strides = {kFar, 24, 8};
  args.v_cache = v_cache.data(), args.v_cache_strides = {24, 24, 8};
  args.seqlens = static_cast<const std::int32_t*>(number.data());
  args.cache_batch_idx = args.seqlens + 1;
  context.append(p, args);
  std::vector<std::uint16_t> written(8);
  k_cache.download(written.data(), 16, (kFar + 16) * 2);
  CHECK(written == of_k);
  v_cache.download(written.data(), 16, 80);
  CHECK(written == of_v);
}

TEST_CASE("append: a pack has the kernel for every call of its dtype and head dims") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const TemporaryDirectory pack;
  PrecompileOptions options;
  options.out = pack.path();
  options.append = true;
  options.plans = {{RowAlignment::bytes16}, {RowAlignment::element}};
  Context(untuned()).precompile({{.head_dim = 24}}, {std::string(device(device_under_test()).arch.name)},
                                options);

  Context context(serving(pack.path()));
  AppendProblem p = small_append();
  p.head_dim = p.rotary_dim = 24, p.head_dim_v = 0;
  for (const int shift : {0, 1}) {
    append_and_expect(context, AppendCall(p, {.seqlens = {0, 4, 9}}, {.shift = shift}));
    AppendProblem paged = p;
    paged.rotary_dim = 16, paged.rotary_style = RotaryStyle::interleaved;
    paged.page_size = 4, paged.max_pages = 3;
    append_and_expect(
        context, AppendCall(paged, {.seqlens = {0, 9, 0}, .page_table = {{0, 9, 9}, {9, 9, 2}, {1, -1, -1}}},
                            {.shift = shift}));
  }
  p.dtype = DType::bf16;
  const AppendCall other(p, {.seqlens = {0, 4, 9}});
  CHECK_THROWS_WITH_AS(context.append(other.problem, other.args), doctest::Contains("fa2 precompile"),
                       Unavailable);
}
