// append() to caches of 8 bits: every code is that of the new number, rotated in float32, divided by its factor.
#include <doctest/doctest.h>
#include <fa2/append.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <runtime/device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../support/append_call.h"
#include "../support/temporary_directory.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr Factors kFactors[] = {Factors::none, Factors::shared, Factors::each};

AppendProblem small_problem() {
  AppendProblem p = small_append();
  p.kv_type = KvType::e4m3;
  p.head_dim = 32, p.heads_kv = 2;
  return p;
}

}  // namespace

TEST_CASE("append to e4m3: both styles of rotation, with tables of either type, from rows of any alignment") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  each_rotation(small_problem(),
                {{64, 64, 64}, {32, 48, 8}, {128, 64, 32}, {80, 80, 80}, {48, 128, 40}, {256, 256, 64}},
                [&](const AppendProblem& p, int i) {
                  append_and_expect(context,
                                    AppendCall(p, {.seqlens = {0, 9, 4}},
                                               {.shift = i % 4 == 0 ? 1 : 0, .factors = kFactors[i % 3]}));
                });
}

TEST_CASE("append to e4m3: without rotation, NaN, infinities and numbers beyond 448 too") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const int shift : {0, 1}) {
      for (const Factors factors : kFactors) {
        AppendProblem p = small_problem();
        p.dtype = dtype;
        p.rotary_dim = 0, p.heads_q = p.table_rows = 0;
        INFO("factors ", static_cast<int>(factors), " shift ", shift);
        append_and_expect(context, AppendCall(p, {.seqlens = {9, 1, 4}},
                                              {.shift = shift, .factors = factors, .extremes = true}));
      }
    }
  }
}

TEST_CASE("append to e4m3: rotated NaN, infinities and numbers beyond 448") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const RotaryStyle style : {RotaryStyle::halves, RotaryStyle::interleaved}) {
    AppendProblem p = small_problem();
    p.rotary_style = style;
    append_and_expect(context,
                      AppendCall(p, {.seqlens = {9, 1, 4}}, {.factors = Factors::each, .extremes = true}));
  }
}

TEST_CASE("append to e4m3: pages in either layout, and K and V in one buffer") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const std::int32_t page : {1, 7, 16}) {
    for (const bool heads_first : {false, true}) {
      AppendProblem p = small_problem();
      p.dtype = heads_first ? DType::bf16 : DType::f16;
      p.table_rows = 2 * page + 4;
      p.page_size = page, p.max_pages = page == 1 ? 5 : 3, p.cache_entries = p.batch * p.max_pages;
      AppendTables tables{.seqlens = {0, page - 1, page + 1}};
      for (std::int32_t b = 0; b < 3; ++b) {
        tables.page_table.emplace_back();
        for (std::int32_t i = 0; i < p.max_pages; ++i)
          tables.page_table.back().push_back((i * 3 + b + 4) % static_cast<std::int32_t>(p.cache_entries));
      }
      INFO("page ", page, " heads first ", heads_first);
      append_and_expect(
          context,
          AppendCall(p, tables,
                     {.heads_first = heads_first, .shared_buffer = page == 7, .factors = Factors::each}));
    }
  }
}

TEST_CASE("append to e4m3: packed rows have the factors of their sequence, in whichever entry it lies") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  AppendProblem p = small_problem();
  p.batch = 5, p.cache_entries = 7, p.total_new = 12, p.heads_kv = 3;
  AppendTables tables{.seqlens = {1, 12, 2, 0, 3},
                      .cache_batch_idx = {6, 0, 3, 1, 2},
                      .cu_seqlens_new = {1, 1, 1, 6, 10, 11}};
  for (const int shift : {0, 1})
    append_and_expect(context, AppendCall(p, tables, {.shift = shift, .factors = Factors::each}));
}

TEST_CASE("append to e4m3: a call that breaks a rule writes nothing") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const auto expect_refused = [&](const AppendProblem& problem, const AppendArgs& args, const char* rule) {
    CHECK_THROWS_WITH_AS(context.append(problem, args), doctest::Contains(rule), InvalidRequest);
  };
  AppendCall call(small_problem(), {.seqlens = {9, 1, 4}}, {.factors = Factors::each});
  AppendArgs args = call.args;
  args.k_cache = static_cast<char*>(args.k_cache) + 8;
  expect_refused(call.problem, args, "must be a multiple of 16 bytes: rows of 8-bit elements");
  AppendProblem wide = call.problem;
  wide.kv_type = KvType::same;
  expect_refused(wide, call.args, "k_descale = given, must be null, or the problem's kv_type e4m3");
  AppendProblem odd = call.problem;
  odd.head_dim = 24;
  expect_refused(odd, call.args, "head_dim = 24, must be a multiple of 16 with kv_type e4m3");
  CHECK(call.is_untouched());
  append_and_expect(context, call);
}

TEST_CASE("append to e4m3: a pack made for 8-bit keys and values has the kernel") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const TemporaryDirectory pack;
  PrecompileOptions options;
  options.out = pack.path();
  options.append = true;
  options.plans = {{RowAlignment::bytes16}};
  Context(untuned()).precompile({{.head_dim = 32, .kv_type = KvType::e4m3}},
                                {std::string(device(device_under_test()).arch.name)}, options);
  Context context(serving(pack.path()));
  AppendProblem p = small_problem();
  append_and_expect(context, AppendCall(p, {.seqlens = {9, 1, 4}}, {.factors = Factors::each}));
  p.kv_type = KvType::same;
  const AppendCall other(p, {.seqlens = {9, 1, 4}});
  CHECK_THROWS_WITH_AS(context.append(other.problem, other.args), doctest::Contains("fa2 precompile"),
                       Unavailable);
}
