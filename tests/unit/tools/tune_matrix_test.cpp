// Searches of many problems, one after the other, on a fake GPU.
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <generator/kernel_source.h>
#include <tools/tune_matrix.h>
#include <tools/tuning_matrix.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace fa2;
using tools::MatrixPoint;
using tools::MatrixSearch;
using tools::points_of;

namespace {

const Target kGpu{*find_arch("sm_90a"), "GPU A", 132};

PlannedProblem problem(std::int64_t seqlen) {
  return PlannedProblem{{.head_dim = 128, .heads_q = 16, .seqlen_q = seqlen, .seqlen_k = seqlen}, {}}
      .normalized();
}

TuningRecord record_for(const PlannedProblem& p) {
  const KernelConfig config = heuristic(p, kGpu.arch).config;
  return {.device = kGpu.device,
          .arch = std::string(kGpu.arch.name),
          .sm_count = kGpu.sm_count,
          .bucket = bucket_of(p),
          .config = config,
          .us = 80,
          .heuristic_us = 100,
          .templates = template_digest(config, kGpu.arch),
          .date = "2026-01-01T00:00:00Z"};
}

/// A search takes 4 s by its own clock. The search of a problem of this length fails.
struct Fake {
  std::int64_t failing = 0;
  double now = 0;
  std::vector<std::int64_t> searched;
  std::vector<std::size_t> kept_before;  ///< number of records before each search
  std::vector<TuningRecord> kept;
  std::vector<std::string> said;

  MatrixSearch search() {
    return {.tune =
                [this](const PlannedProblem& p) {
                  now += 4;
                  searched.push_back(p.seqlen_q);
                  kept_before.push_back(kept.size());
                  if (p.seqlen_q == failing) throw CompileError("spills\nmuch", "", "");
                  return std::vector<TuningRecord>{record_for(p)};
                },
            .keep = [this](const TuningRecord& record) { kept.push_back(record); },
            .say = [this](const std::string& line) { said.push_back(line); },
            .now_seconds = [this] { return now; }};
  }
};

}  // namespace

TEST_CASE("standard matrix: the problems that shipped records cover, each in another bucket") {
  const std::vector<PlannedProblem> problems = tools::standard_matrix();
  std::set<std::string> buckets, kinds;
  for (const PlannedProblem& p : problems) {
    buckets.insert(to_string(bucket_of(p)));
    kinds.insert(to_string(traits_of(p)) + (p.heads_q == p.heads_kv ? "" : " grouped"));
    const std::int64_t tokens = p.varlen ? p.total_q : p.batch * p.seqlen_q;
    CHECK(tokens == (p.varlen ? 32768 : 16384));
    CHECK(p.heads_q * p.head_dim == (p.heads_q == p.heads_kv ? 2048 : 4096));
  }
  CHECK(buckets.size() == problems.size());
  CHECK(problems.size() == 108);
  for (const char* dtype : {"f16", "bf16"}) {
    for (const char* kind :
         {"_d64_none", "_d64_causal_bottom_right", "_d128_none", "_d128_causal_bottom_right", "_d256_none",
          "_d256_causal_bottom_right", "_d128_none grouped", "_d128_causal_bottom_right grouped",
          "_d128_causal_bottom_right_window_left", "_d128_causal_bottom_right_softcap",
          "_d128_causal_bottom_right_alibi", "_d128_causal_bottom_right_sinks", "_d128_none_varlen",
          "_d128_causal_bottom_right_varlen"}) {
      CAPTURE(kind);
      CHECK(kinds.erase(std::string(dtype) + kind) == 1);
    }
  }
  CHECK(kinds.empty());
}

TEST_CASE(
    "tune matrix: problems with a current record of this GPU are skipped, and problems that share a bucket") {
  const PlannedProblem a = problem(1024), b = problem(2048), near_a = problem(1030);
  const auto skipped = [&](TuningRecord record, const std::optional<Target>& target = kGpu) {
    return !points_of({a}, {std::move(record)}, target).front().skipped.empty();
  };
  CHECK(skipped(record_for(a)));
  CHECK(skipped(record_for(near_a)));
  CHECK_FALSE(skipped(record_for(b)));
  CHECK_FALSE(skipped(record_for(a), std::nullopt));
  TuningRecord other = record_for(a);
  other.device = "GPU B";
  CHECK_FALSE(skipped(other));
  other = record_for(a);
  other.sm_count = 114;
  CHECK_FALSE(skipped(other));
  other = record_for(a);
  other.templates = "of an older library";
  CHECK_FALSE(skipped(other));
  other = record_for(a);
  other.config.tile_m = 40;
  CHECK_FALSE(skipped(other));

  const auto points = points_of({a, b, near_a}, {record_for(b)}, kGpu);
  CHECK(tools::list_of(points) == "[1/3] " + to_string(a) + "\n[2/3] " + to_string(b) +
                                      ": has a record\n[3/3] " + to_string(near_a) +
                                      ": shares the bucket of problem 1\n");
  CHECK(points[1].records.at(0).us == 80);
}

TEST_CASE(
    "tune matrix: each record is saved before the next search, and a line estimates the remaining time") {
  const PlannedProblem a = problem(1024), b = problem(2048), c = problem(4096), d = problem(8192);
  std::vector<MatrixPoint> points = points_of({a, b, c, d}, {record_for(b)}, kGpu);
  Fake fake;
  fake.failing = 4096;
  search(points, fake.search());
  CHECK(fake.searched == std::vector<std::int64_t>{1024, 4096, 8192});
  CHECK(fake.kept_before == std::vector<std::size_t>{0, 1, 1});
  REQUIRE(fake.kept.size() == 2);
  CHECK(fake.kept[0].bucket == bucket_of(a));
  CHECK(fake.kept[1].bucket == bucket_of(d));
  CHECK(fake.said == std::vector<std::string>{
                         "[1/4] " + to_string(a) + ": 80.0 us, the heuristic's 100.0 us, 8 s left",
                         "[3/4] " + to_string(c) + ": failed: spills, 4 s left",
                         "[4/4] " + to_string(d) + ": 80.0 us, the heuristic's 100.0 us, 0 s left",
                     });

  const std::string text = tools::text_of(points);
  CHECK(text.find("1.25x") != std::string::npos);
  CHECK(text.find("failed: spills\n") != std::string::npos);
  CHECK(text.ends_with("4 problems: 2 searched, 1 skipped, 1 failed\n"));
  const tools::Json json = tools::json_of(points);
  REQUIRE(json.size() == 4);
  CHECK(json[0].at("problem").at("seqlen_q") == 1024);
  CHECK(json[0].at("records").at(0).at("us") == 80);
  CHECK(json[1].at("skipped") == "has a record");
  CHECK(json[2].at("records").empty());
  CHECK(json[2].at("error") == "spills\nmuch");
}

TEST_CASE("tune matrix: if killed and started again, it continues where it was") {
  const std::vector<PlannedProblem> problems = {problem(1024), problem(2048), problem(4096)};
  Fake first;
  MatrixSearch killed = first.search();
  killed.say = [&](const std::string&) {
    if (first.kept.size() == 2) throw std::runtime_error("killed");
  };
  std::vector<MatrixPoint> points = points_of(problems, {}, kGpu);
  CHECK_THROWS_AS(search(points, killed), std::runtime_error);
  REQUIRE(first.kept.size() == 2);

  Fake second;
  points = points_of(problems, first.kept, kGpu);
  search(points, second.search());
  CHECK(second.searched == std::vector<std::int64_t>{4096});
  CHECK(points_of(problems, {first.kept[0], first.kept[1], second.kept[0]}, kGpu).back().skipped ==
        "has a record");
}

TEST_CASE("tune matrix: a record that cannot be saved ends it") {
  std::vector<MatrixPoint> points = points_of({problem(1024), problem(2048)}, {}, kGpu);
  Fake fake;
  MatrixSearch search_on = fake.search();
  search_on.keep = [](const TuningRecord&) { throw CacheError("the disk is full"); };
  CHECK_THROWS_AS(search(points, search_on), CacheError);
  CHECK(fake.searched.size() == 1);
}

TEST_CASE("tune matrix: each pass of a backward needs its record, and is a row") {
  const PlannedProblem a = problem(1024), b = problem(2048);
  const std::vector<KernelPass> passes = {KernelPass::dq, KernelPass::dk_dv};
  const auto passes_of = [&](const PlannedProblem&) { return passes; };
  const auto record_of = [](const PlannedProblem& p, KernelPass pass) {
    TuningRecord record = record_for(p);
    record.config = heuristic_choices(p, kGpu.arch, pass).at(0).config;
    record.bucket = bucket_of(p, pass);
    record.templates = template_digest(record.config, kGpu.arch);
    return record;
  };
  const auto is_skipped = [&](const std::vector<TuningRecord>& known) {
    return points_of({a}, known, kGpu, passes_of).front().skipped == "has records";
  };
  const TuningRecord dq = record_of(a, passes[0]), dk_dv = record_of(a, passes[1]);
  CHECK(is_skipped({dq, dk_dv}));
  CHECK_FALSE(is_skipped({dq}));
  CHECK_FALSE(is_skipped({dk_dv}));
  CHECK_FALSE(is_skipped({record_for(a), dq}));
  CHECK_FALSE(is_skipped({record_of(b, passes[0]), record_of(b, passes[1])}));
  CHECK(points_of({a}, {dq, dk_dv}, kGpu).front().skipped.empty());  // there is none for the forward

  std::vector<MatrixPoint> points = points_of({a, b}, {dq, dk_dv}, kGpu, passes_of);
  Fake fake;
  MatrixSearch search_on = fake.search();
  search_on.tune = [&](const PlannedProblem& p) {
    return std::vector<TuningRecord>{record_of(p, passes[0]), record_of(p, passes[1])};
  };
  search(points, search_on);
  REQUIRE(fake.kept.size() == 2);
  CHECK(fake.kept[0].bucket == bucket_of(b, KernelPass::dq));
  CHECK(fake.kept[1].bucket == bucket_of(b, KernelPass::dk_dv));
  CHECK(fake.said.front().find(": 160.0 us, the heuristic's 200.0 us, 0 s left") != std::string::npos);
  const std::string text = tools::text_of(points);
  CHECK(std::ranges::count(text, '\n') == 1 + 4 + 1);
  CHECK(text.ends_with("2 problems: 1 searched, 1 skipped, 0 failed\n"));
  CHECK(tools::json_of(points)[1].at("records").size() == 2);
}
