// How problems with different group sizes, which pack different numbers of heads, share tuning records.
#include <autotune/candidates.h>
#include <autotune/config_choice.h>
#include <autotune/heuristic.h>
#include <bench/problem_pairs.h>
#include <doctest/doctest.h>
#include <generator/config_space.h>
#include <generator/packed_heads.h>
#include <tests/support/tuning_record.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace fa2;
using namespace fa2::test;

const Target kHopper{*find_arch("sm_90a"), "GPU A", 132};

PlannedProblem decoding(std::int64_t heads_q, std::int64_t heads_kv, std::int64_t queries = 1) {
  PlannedProblem p({.head_dim = 128, .batch = 64, .heads_q = heads_q, .heads_kv = heads_kv}, {});
  p.seqlen_q = queries;
  p.seqlen_k = 2048;
  return p;
}

TuningRecord record_of(const PlannedProblem& p, const KernelConfig& config) {
  return {.device = kHopper.device,
          .arch = std::string(kHopper.arch.name),
          .sm_count = kHopper.sm_count,
          .bucket = bucket_of(p),
          .config = config,
          .us = 90,
          .heuristic_us = 100,
          .templates = {},
          .date = {}};
}

ChoiceSettings with_stored_records() {
  ChoiceSettings settings;
  settings.tune = TuneMode::stored;
  return settings;
}

KernelConfig unpacked(KernelConfig config) {
  config.packed_heads = 1;
  return config;
}

}  // namespace

TEST_CASE("packed heads: 28/4 and 32/4 heads have different buckets, and do not use each other's record") {
  const PlannedProblem seven = decoding(28, 4), eight = decoding(32, 4);
  CHECK(bucket_of(seven).group_log2 == bucket_of(eight).group_log2);
  CHECK(bucket_of(seven).packed_heads == 1);
  CHECK(bucket_of(eight).packed_heads == 8);
  CHECK_FALSE(distance(bucket_of(seven), bucket_of(eight)).has_value());
  CHECK(to_string(bucket_of(seven)).find(" group ~8 batch*heads ~2048 ") != std::string::npos);
  CHECK(to_string(bucket_of(eight)).find(" group ~8 packed_heads 8 batch*heads ~2048 ") != std::string::npos);
  // Long prompts, backwards and dropout do not pack heads.
  CHECK(bucket_of(decoding(28, 4, 4096)) == bucket_of(decoding(32, 4, 4096)));
  CHECK(bucket_of(seven, KernelPass::dq) == bucket_of(eight, KernelPass::dq));
  PlannedProblem dropped = eight;
  dropped.dropout = true;
  CHECK(bucket_of(dropped).packed_heads == 1);

  TuningStore store("");
  const ChoiceSettings settings = with_stored_records();
  ConfigChooser chooser(settings, store);
  store.add(record_of(seven, heuristic(seven, kHopper.arch).config));
  CHECK(chooser.choose(eight, kHopper).origin == ConfigOrigin::heuristic);
  CHECK(chooser.choose(seven, kHopper).origin == ConfigOrigin::tuned_exact);
}

TEST_CASE(
    "packed heads: a record's config is adjusted to as many heads as the problem's own search would try") {
  TuningStore store("");
  const ChoiceSettings settings = with_stored_records();
  ConfigChooser chooser(settings, store);
  bench::ProblemPairs pairs(3);
  std::mt19937 random(1);
  std::set<int> packed;
  int repacked = 0;
  for (int i = 0; i < 400; ++i) {
    const bench::ProblemPair pair = pairs.next();
    const std::vector<KernelConfig> candidates = search_candidates(pair.first, kHopper.arch);
    const KernelConfig measured = candidates[random() % candidates.size()];
    store.add(record_of(pair.first, measured));
    const ConfigChoice choice = chooser.choose(pair.second, kHopper);
    CAPTURE(to_string(pair.first));
    CAPTURE(to_string(pair.second));
    CAPTURE(to_string(measured));
    CHECK(choice.origin == ConfigOrigin::tuned_exact);
    CHECK(unpacked(choice.config) == unpacked(measured));
    CHECK(why_rejected(pair.second, choice.config, kHopper.arch).value_or("") == "");
    const bool packs = kind_of(measured).tunable("packed_heads") != nullptr;
    CHECK(choice.config.packed_heads == (packs ? packed_heads(pair.second, measured.tile_m) : 1));
    CHECK(choice.record->config == measured);  // the record keeps the measured config
    packed.insert(choice.config.packed_heads);
    repacked += choice.config.packed_heads != measured.packed_heads;
  }
  CHECK(packed == std::set{1, 2, 4, 8, 16});
  CHECK(repacked > 5);
}

TEST_CASE(
    "packed heads: a bucket yields a problem, and one for each number of heads that nearby tiles pack") {
  bench::ProblemPairs pairs(5);
  for (int i = 0; i < 2000; ++i) {
    const PlannedProblem p = pairs.next().first;
    const Bucket bucket = bucket_of(p);
    CAPTURE(to_string(p));
    CHECK(is_found_again(bucket, p));
    const std::vector<PlannedProblem> packings = packings_of(bucket, p);
    for (int tile_m = 16; tile_m <= kMostPackedRows; tile_m += 16) {
      CHECK(std::ranges::any_of(packings, [&](const PlannedProblem& other) {
        return packed_heads(other, tile_m) == packed_heads(p, tile_m);
      }));
    }
  }
}

TEST_CASE("packed heads: a pinned config keeps its number") {
  ChoiceSettings settings;
  settings.pinned = heuristic(decoding(32, 4), kHopper.arch).config;
  settings.pinned->packed_heads = 2;
  settings.pinned_by = "FA2_CONFIG";
  TuningStore store("");
  ConfigChooser chooser(settings, store);
  CHECK(chooser.choose(decoding(32, 4), kHopper).config == *settings.pinned);
}
