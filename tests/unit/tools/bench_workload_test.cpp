// The workload of a benchmark, from its flags.
#include <doctest/doctest.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>
#include <tools/bench_inputs.h>
#include <tools/bench_workload.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

using namespace fa2;
using tools::Workload;

namespace {

Workload workload(const std::string& flags) {
  CLI::App app;
  tools::WorkloadOptions options;
  options.add_to(app);
  app.parse(flags);
  return workload_of(options);
}

}  // namespace

TEST_CASE("bench workload: queries over a paged cache, whose pages belong to sequences in random order") {
  const Workload work = workload(
      "--head-dim 64 --causal no --hidden 512 --heads-kv 2 --lengths 100,0,17 --seqlen-q 1 --page-size 16");
  REQUIRE(work.problems.size() == 1);
  REQUIRE(work.is_cached());
  const AttentionProblem& p = work.problems[0];
  CHECK(p.varlen);
  CHECK(p.batch == 3);
  CHECK(p.heads_q == 8);
  CHECK(p.heads_kv == 2);
  CHECK(p.seqlen_q == 1);
  CHECK(p.total_q == 0);
  CHECK(p.seqlen_k == 112);
  CHECK(p.page_size == 16);
  CHECK(p.page_count == 9);  // those in use
  const tools::SequenceTables& tables = work.tables_of(0);
  CHECK(tables.seqused_k == std::vector<std::int32_t>{100, 0, 17});
  CHECK(tables.pages_of_row == 7);
  REQUIRE(tables.page_table.size() == 21);
  std::vector<std::int32_t> used(tables.page_table.begin(), tables.page_table.begin() + 7);
  used.insert(used.end(), tables.page_table.begin() + 14, tables.page_table.begin() + 16);
  CHECK_FALSE(std::ranges::is_sorted(used));
  std::ranges::sort(used);
  std::vector<std::int32_t> each(9);
  std::iota(each.begin(), each.end(), 0);
  CHECK(used == each);
  require_sound(tables, p);
  CHECK(work.keys == std::vector<std::string>{"100,0,17"});
  CHECK(tools::key_value_bytes(p, tables) == 117.0 * 2 * (64 + 64) * 2);
}

TEST_CASE("bench workload: without pages each sequence has an entry of the cache") {
  const Workload work =
      workload("--head-dim 64,128 --lengths lognormal:300 --batch 4 --seqlen-q 3 --dtype bf16");
  REQUIRE(work.problems.size() == 4);  // with and without the causal mask
  for (std::size_t i = 0; i < 4; ++i) {
    const AttentionProblem& p = work.problems[i];
    const std::vector<std::int32_t>& lengths = work.tables_of(i).seqused_k;
    CHECK(p.dtype == DType::bf16);
    CHECK(p.batch == 4);
    CHECK(p.seqlen_q == 3);
    CHECK(p.seqlen_k == std::ranges::max(lengths));
    CHECK(p.page_count == 0);
    CHECK(std::accumulate(lengths.begin(), lengths.end(), 0) == 1200);
    require_sound(work.tables_of(i), p);
  }
  CHECK(workload("--lengths equal:300 --seqlen-q 1 --tokens 1500").problems[0].batch == 5);
}

TEST_CASE("bench workload: the standard decode cases are valid calls on every copy of their caches") {
  const ScopedContext current(kInterpreterDevice);
  const Workload work = workload("--decode --sinks");
  bool has_pages = false, has_batched = false, has_queries = false;
  for (std::size_t i = 0; i < work.problems.size(); ++i) {
    AttentionProblem p = work.problems[i];
    const tools::SequenceTables& tables = work.tables_of(i);
    CAPTURE(to_string(p));
    CHECK(p.head_dim == 128);
    CHECK(p.sinks);
    CHECK(p.heads_q % p.heads_kv == 0);
    has_pages = has_pages || p.page_size == 16;
    has_batched = has_batched || !p.varlen;
    has_queries = has_queries || p.seqlen_q > 1;
    if (p.varlen) require_sound(tables, p);
    const auto keys =
        static_cast<double>(p.varlen ? std::accumulate(tables.seqused_k.begin(), tables.seqused_k.end(), 0)
                                     : p.batch * p.seqlen_k);
    CHECK(tools::key_value_bytes(p, tables) == keys * static_cast<double>(p.heads_kv) * 512);
  }
  CHECK(has_pages);
  CHECK(has_batched);
  CHECK(has_queries);
  CHECK(workload("--decode --head-dim 64,128").problems.size() == 2 * work.problems.size());
}

TEST_CASE("bench workload: copies of a cache do not overlap, and follow each other") {
  const ScopedContext current(kInterpreterDevice);
  const Workload work =
      workload("--head-dim 40 --causal no --lengths 100,1,17 --seqlen-q 1 --page-size 16 --sinks");
  const AttentionProblem& p = work.problems.at(0);
  constexpr int kCopies = 3;
  const tools::BenchInputs inputs(work.problems, {}, tools::Direction::forward, {kCopies});
  const tools::DeviceTables tables(work.tables_of(0));
  const std::size_t bytes = static_cast<std::size_t>(p.page_count * p.page_size * p.heads_kv) * 40 * 2;
  const auto* end = static_cast<const char*>(inputs.args(p).k);
  for (int copy = 0; copy < kCopies; ++copy) {
    AttentionArgs args = inputs.args(p, copy);
    tables.add_to(args, p);
    CHECK(violations_of(PlannedProblem(p, {}), args).empty());
    CHECK(args.page_table_stride == 7);
    const auto* k = static_cast<const char*>(args.k);
    CHECK(k >= end);
    CHECK(k - end < 256);
    end = k + bytes;
    CHECK(static_cast<std::size_t>(std::count(k, end, '\0')) < bytes / 2);  // all of it can be read
  }
}

TEST_CASE("bench workload: for a page table that is too large, the error says what to do") {
  CHECK_THROWS_WITH_AS(workload("--lengths equal:1000000 --batch 4096 --seqlen-q 1 --page-size 1"),
                       "--page-size: 4096 sequences of up to 1000000 pages, must be at most 2147483647 "
                       "pages: raise --page-size",
                       CLI::ValidationError);
}
