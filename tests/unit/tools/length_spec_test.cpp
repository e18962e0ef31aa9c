// --lengths: its words, their tables, and the FLOPs of the tables.
#include <doctest/doctest.h>
#include <reference/attention_reference.h>
#include <tools/flops.h>
#include <tools/length_options.h>
#include <tools/length_spec.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace fa2;
using namespace fa2::tools;

using Lengths = std::vector<std::int32_t>;

Lengths lengths(const std::string& text, std::int64_t count) {
  return LengthSpec("--lengths", text).lengths(count);
}

std::int64_t sum(const Lengths& all) {
  return std::accumulate(all.begin(), all.end(), std::int64_t{0});
}

/// Counts one query and key at a time.
double count_flops(const AttentionProblem& p, const Lengths& queries, const Lengths& keys) {
  double pairs = 0;
  for (std::size_t b = 0; b < queries.size(); ++b) {
    AttentionProblem alone = p;
    alone.seqlen_q = queries[b];
    alone.seqlen_k = keys[b];
    for (std::int64_t i = 0; i < queries[b]; ++i) {
      for (std::int64_t j = 0; j < keys[b]; ++j) pairs += reference::is_visible(alone, i, j);
    }
  }
  return pairs * static_cast<double>(p.heads_q) * 2 * (p.head_dim + p.head_dim_v);
}

}  // namespace

TEST_CASE("lengths: lists and equal lengths") {
  CHECK(lengths("100,200,0", 3) == Lengths{100, 200, 0});
  CHECK(lengths("7", 1) == Lengths{7});
  CHECK(LengthSpec("", "100,200,0").count() == 3);
  CHECK(LengthSpec("", "100,200,0").mean() == 100);
  CHECK(lengths("equal:2048", 3) == Lengths{2048, 2048, 2048});
  CHECK_FALSE(LengthSpec("", "equal:2048").count().has_value());
}

TEST_CASE("lengths: uniform ones include both ends, and are the same each time") {
  const Lengths all = lengths("uniform:3:7", 500);
  CHECK(all == lengths("uniform:3:7", 500));
  CHECK(*std::ranges::min_element(all) == 3);
  CHECK(*std::ranges::max_element(all) == 7);
  CHECK(LengthSpec("", "uniform:3:7").mean() == 5);
}

TEST_CASE("lengths: log-normal ones have the requested mean and spread") {
  for (const std::string sigma : {"", ":0.5", ":0", ":2"}) {
    CAPTURE(sigma);
    const Lengths all = lengths("lognormal:4096" + sigma, 2000);
    CHECK(all == lengths("lognormal:4096" + sigma, 2000));
    CHECK(sum(all) == 4096 * 2000);
    double mean = 0, variance = 0;
    for (const std::int32_t length : all) mean += std::log(std::max(length, 1)) / 2000;
    for (const std::int32_t length : all)
      variance += std::pow(std::log(std::max(length, 1)) - mean, 2) / 2000;
    CHECK(std::sqrt(variance) ==
          doctest::Approx(sigma.empty() ? 1 : std::stod(sigma.substr(1))).epsilon(0.1));
  }
  CHECK(sum(lengths("lognormal:512", 64)) == 32768);
  CHECK(sum(lengths("lognormal:0", 3)) == 0);
  CHECK(sum(lengths("lognormal:1", 1)) == 1);

  const Lengths longest = lengths("lognormal:1073741312:10", 4);
  CHECK(sum(longest) == 4LL * 1073741312);
  CHECK(*std::ranges::max_element(longest) == 2147482624);
  CHECK(*std::ranges::min_element(longest) >= 0);
}

TEST_CASE("lengths: unknown words are named, with the known ones") {
  for (const std::string text :
       {"", "equal", "equal:", "equal:x", "equal:-1", "equal:1:2", "equal:2147482625", "lognormal:1:-1",
        "lognormal:1:x", "lognormal:1:nan", "lognormal:1:1:1", "uniform:1", "uniform:5:4", "normal:3", "1,,2",
        "1,2,", "1, 2", "1.5", "99999999999"}) {
    CAPTURE(text);
    try {
      LengthSpec("--lengths", text);
      FAIL("no error");
    } catch (const CLI::ValidationError& error) {
      CHECK(std::string(error.what())
                .find("--lengths: \"" + text + "\", must be one of equal:N, lognormal:MEAN") == 0);
    }
  }
}

TEST_CASE("lengths: the tables have as many sequences as --batch, the list or the tokens say") {
  LengthOptions options{.lengths = "100,200,0", .lengths_k = {}, .batch = {}};
  CHECK(options.tables(16384).cu_seqlens_q == Lengths{0, 100, 300, 300});
  CHECK(options.tables(16384).cu_seqlens_k == Lengths{0, 100, 300, 300});
  options.lengths_k = "equal:7";
  CHECK(options.tables(16384).cu_seqlens_k == Lengths{0, 7, 14, 21});
  options.batch = 2;
  CHECK_THROWS_WITH_AS(options.tables(1), "--lengths: 3 lengths, must be 2: one per sequence",
                       CLI::ValidationError);
  options = {.lengths = "equal:1000", .lengths_k = "1,2", .batch = {}};
  CHECK_THROWS_WITH_AS(options.tables(1), "--lengths-k: 2 lengths, must be 1: one per sequence",
                       CLI::ValidationError);
  options.lengths_k.clear();
  CHECK(options.tables(3500).cu_seqlens_q == Lengths{0, 1000, 2000, 3000});
  options = {.lengths = "equal:2147482624", .lengths_k = {}, .batch = 2};
  CHECK_THROWS_WITH_AS(options.tables(1),
                       "--lengths: must add up to at most 2147483647 tokens: lower --batch",
                       CLI::ValidationError);

  const LengthSummary summary = summary_of({0, 100, 300, 300});
  CHECK(summary.batch == 3);
  CHECK(summary.total == 300);
  CHECK(summary.longest == 200);
  CHECK(summary.mean == 100);
}

TEST_CASE("lengths: FLOPs count the pairs that each sequence sees") {
  const Lengths queries = {5, 0, 17, 1, 9}, keys = {7, 3, 0, 11, 4};
  SequenceTables tables{.cu_seqlens_q = {0}, .cu_seqlens_k = {0}, .seqused_q = {}, .seqused_k = {}};
  for (std::size_t b = 0; b < queries.size(); ++b) {
    tables.cu_seqlens_q.push_back(tables.cu_seqlens_q.back() + queries[b]);
    tables.cu_seqlens_k.push_back(tables.cu_seqlens_k.back() + keys[b]);
  }
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
    for (const bool window : {false, true}) {
      AttentionProblem p{.head_dim = 64, .head_dim_v = 32, .mask = mask, .batch = 5, .heads_q = 3};
      if (window) p.window_left = 3;
      set_lengths(p, tables, 32, 25);
      CAPTURE(to_string(p));
      CHECK(p.seqlen_q == 17);
      CHECK(p.total_k == 25);
      CHECK(flops_of(p, tables.pointers(p)) == doctest::Approx(count_flops(p, queries, keys)));
    }
  }
  // As many as in batched attention of equal lengths: half of a causal square.
  const SequenceTables equal = LengthOptions{.lengths = "equal:128", .lengths_k = {}, .batch = 4}.tables(0);
  AttentionProblem p{.head_dim = 64, .mask = MaskKind::causal_bottom_right, .batch = 4, .heads_q = 2};
  set_lengths(p, equal, 512, 512);
  AttentionProblem batched = p;
  batched.varlen = false;
  batched.total_q = batched.total_k = 0;
  CHECK(flops_of(p, equal.pointers(p)) == flops_of(batched));
}
