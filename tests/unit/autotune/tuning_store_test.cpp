// Tuning records: lines of JSON, the order of look-ups, several writers, damage.
#include <autotune/tuning_store.h>
#include <doctest/doctest.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/captured_log.h>
#include <tests/support/temporary_directory.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

using namespace fa2;
using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

Bucket bucket(int seqlen_log2 = 12) {
  return {.traits = "f16_d128_none",
          .group_log2 = 2,
          .heads_log2 = 6,
          .sizes = {{"seqlen_q", seqlen_log2}, {"seqlen_k", seqlen_log2}}};
}

TuningRecord record(const std::string& device = "GPU A", int seqlen_log2 = 12, std::int32_t tile_m = 64) {
  TuningRecord made;
  made.device = device;
  made.arch = "sm_90a";
  made.sm_count = 132;
  made.bucket = bucket(seqlen_log2);
  made.config.tile_m = tile_m;
  made.us = 123.25;
  made.heuristic_us = 130.5;
  made.templates = "abc";
  made.date = "2025-01-02T03:04:05Z";
  return made;
}

bool any(const KernelConfig&) {
  return true;
}

Lookup find(const TuningStore& store, int seqlen_log2 = 12, const std::string& device = "GPU A",
            const std::function<bool(const KernelConfig&)>& is_valid = any) {
  return store.find(device, "sm_90a", 132, bucket(seqlen_log2), is_valid);
}

}  // namespace

TEST_CASE("a record survives the round trip on one line") {
  const std::string line = to_json_line(record());
  CHECK(line.find('\n') == std::string::npos);
  const auto back = parse_json_line(line);
  REQUIRE(back.has_value());
  CHECK(back->device == "GPU A");
  CHECK(back->arch == "sm_90a");
  CHECK(back->sm_count == 132);
  CHECK(back->bucket == bucket());
  CHECK(back->config == record().config);
  CHECK(back->us == 123.25);
  CHECK(back->heuristic_us == 130.5);
  CHECK(back->templates == "abc");
  CHECK(back->date == "2025-01-02T03:04:05Z");
  CHECK(nlohmann::json::parse(line)["config"]["tile_m"] == 64);
  CHECK(nlohmann::json::parse(line)["format"] == 2);
}

TEST_CASE("a record of a problem with windows survives it too, with the sizes of its problem") {
  const PlannedProblem plain({.head_dim = 128, .seqlen_q = 4096, .seqlen_k = 4096}, {});
  for (const std::optional<std::int64_t> left : {std::optional<std::int64_t>{}, {1023}}) {
    for (const std::optional<std::int64_t> right : {std::optional<std::int64_t>{}, {0}, {500}}) {
      PlannedProblem p = plain;
      p.window_left = left;
      p.window_right = right;
      TuningRecord made = record();
      made.bucket = bucket_of(p);
      const auto back = parse_json_line(to_json_line(made));
      REQUIRE(back.has_value());
      CHECK(back->bucket == made.bucket);
      CHECK(distance(back->bucket, bucket_of(p)) == 0);
    }
  }
}

TEST_CASE("a record of varlen survives it with its totals") {
  PlannedProblem p({.head_dim = 128, .varlen = true, .batch = 64, .seqlen_q = 4096, .seqlen_k = 4096}, {});
  for (const std::int64_t total_q : {0, 32768}) {
    for (const std::int64_t total_k : {0, 1000000}) {
      p.total_q = total_q;
      p.total_k = total_k;
      TuningRecord made = record();
      made.bucket = bucket_of(p);
      const auto back = parse_json_line(to_json_line(made));
      REQUIRE(back.has_value());
      CHECK(back->bucket == made.bucket);
    }
  }
}

TEST_CASE("unknown fields are ignored, missing config fields take their defaults") {
  auto object = nlohmann::json::parse(to_json_line(record()));
  object["invented"] = {1, 2};
  object["config"] = {{"kernel", "forward_sm80"}, {"tile_n", 32}, {"invented", 7}};
  const auto back = parse_json_line(object.dump());
  REQUIRE(back.has_value());
  KernelConfig expected;
  expected.tile_n = 32;
  CHECK(back->config == expected);
}

TEST_CASE("lines that are not records are rejected") {
  const std::string good = to_json_line(record());
  for (const std::string& line : {std::string(""), std::string("{"), std::string("null"), std::string("[]"),
                                  std::string("7"), std::string("{}"), std::string("\xff"), good + "x"}) {
    CAPTURE(line);
    CHECK_FALSE(parse_json_line(line).has_value());
  }
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK_FALSE(parse_json_line(good.substr(0, length)).has_value());
  }
  const auto changed = [&](const char* pointer, const nlohmann::json& value) {
    auto object = nlohmann::json::parse(good);
    object[nlohmann::json::json_pointer(pointer)] = value;
    return parse_json_line(object.dump()).has_value();
  };
  CHECK(changed("/format", 2));
  CHECK_FALSE(changed("/format", 1));
  CHECK_FALSE(changed("/format", 3));
  CHECK_FALSE(changed("/format", "2"));
  CHECK_FALSE(changed("/config/kernel", "forward_sm70"));
  CHECK_FALSE(changed("/config/kernel", 90));
  CHECK_FALSE(changed("/device", 1));
  CHECK_FALSE(changed("/config", "tile_m=64"));
  CHECK_FALSE(changed("/config/tile_m", 1.5));
  CHECK_FALSE(changed("/config/tile_m", 1LL << 40));
  CHECK_FALSE(changed("/bucket/heads_log2", -1));
  CHECK_FALSE(changed("/bucket/heads_log2", 1000000));
  CHECK_FALSE(changed("/us", "fast"));
}

TEST_CASE("a look-up tries exact, nearest and another device in turn") {
  TuningStore store("");
  CHECK(find(store).match == Match::none);

  store.add(record("GPU B", 12, 16));
  Lookup found = find(store);
  CHECK(found.match == Match::other_device);
  CHECK(found.record.device == "GPU B");
  CHECK(find(store, 13).match == Match::none);  // another device counts only with the same bucket

  store.add(record("GPU A", 14, 32));  // q and k differ by 2 each
  CHECK(find(store).match == Match::other_device);
  TuningRecord near = record("GPU A", 12, 48);
  near.bucket.heads_log2 += 3;
  store.add(near);
  found = find(store);
  CHECK(found.match == Match::nearest);
  CHECK(found.record.config.tile_m == 48);

  store.add(record("GPU A", 12, 64));
  store.add(record("GPU A", 13, 80));
  found = find(store);
  CHECK(found.match == Match::exact);
  CHECK(found.record.config.tile_m == 64);
  CHECK(store.find("GPU A", "sm_90a", 66, bucket(), any).match == Match::other_device);
  CHECK(store.find("GPU A", "sm_80", 132, bucket(), any).match == Match::none);
  Bucket other = bucket();
  other.traits = "bf16_d128_none";
  CHECK(store.find("GPU A", "sm_90a", 132, other, any).match == Match::none);
}

TEST_CASE("the nearest record wins, among equals the newest; the last of a bucket wins") {
  TuningStore store("");
  TuningRecord far = record("GPU A", 12, 16);
  far.bucket.heads_log2 += 3;
  TuningRecord near = record("GPU A", 12, 32);
  near.bucket.heads_log2 += 1;
  TuningRecord as_near = record("GPU A", 12, 48);
  as_near.bucket.heads_log2 -= 1;
  for (const TuningRecord& each : {near, as_near, far}) store.add(each);
  CHECK(find(store).record.config.tile_m == 48);
  store.add(record("GPU A", 12, 64));
  store.add(record("GPU A", 12, 80));
  CHECK(find(store).record.config.tile_m == 80);
}

TEST_CASE("records whose config is rejected are skipped") {
  TuningStore store("");
  TuningRecord near = record("GPU A", 12, 32);
  near.bucket.heads_log2 += 1;
  store.add(near);
  store.add(record("GPU A", 12, 64));
  store.add(record("GPU A", 12, 80));
  const auto below = [](std::int32_t limit) {
    return [limit](const KernelConfig& config) { return config.tile_m < limit; };
  };
  CHECK(find(store, 12, "GPU A", below(80)).record.config.tile_m == 64);
  CHECK(find(store, 12, "GPU A", below(80)).match == Match::exact);
  CHECK(find(store, 12, "GPU A", below(64)).record.config.tile_m == 32);
  CHECK(find(store, 12, "GPU A", below(64)).match == Match::nearest);
  CHECK(find(store, 12, "GPU A", below(32)).match == Match::none);
}

TEST_CASE("records persist in a private file; the own file wins over read-only ones") {
  const TemporaryDirectory directory;
  const fs::path own = directory / "new/tuning.jsonl";
  const fs::path first = directory / "first.jsonl";
  const fs::path second = directory / "second.jsonl";
  TuningStore(first).add(record("GPU A", 12, 16));
  TuningStore(second).add(record("GPU A", 12, 32));
  CHECK(find(TuningStore(own, {first, second, directory / "absent.jsonl"})).record.config.tile_m == 16);

  TuningStore(own, {first, second}).add(record("GPU A", 12, 64));
  const TuningStore store(own, {first, second});
  CHECK(find(store).record.config.tile_m == 64);
  CHECK(store.records().size() == 3);
  CHECK(mode_of(own) == 0600);
  CHECK(mode_of(own.parent_path()) == 0700);
  CHECK(read_text(own) == to_json_line(record("GPU A", 12, 64)) + "\n");
  CHECK(read_text(first) == to_json_line(record("GPU A", 12, 16)) + "\n");
}

TEST_CASE("a shipped record is used if it matches better than any of the user's") {
  const TuningRecord exact = record("GPU A", 12, 16);
  TuningRecord near = record("GPU A", 12, 32);
  near.bucket.heads_log2 += 1;
  TuningRecord less_near = record("GPU A", 12, 48);
  less_near.bucket.heads_log2 += 3;
  const TuningRecord elsewhere = record("GPU B", 12, 64), own_elsewhere = record("GPU C", 12, 80);
  const auto best = [&](const std::vector<TuningRecord>& own, const std::vector<TuningRecord>& shipped) {
    TuningStore store("", {}, shipped);
    for (const TuningRecord& each : own) store.add(each);
    CHECK(store.records().size() == own.size());
    return find(store);
  };
  const auto check = [&](const Lookup& found, Match match, std::int32_t tile_m, bool shipped) {
    CHECK(found.match == match);
    CHECK(found.record.config.tile_m == tile_m);
    CHECK(found.shipped == shipped);
  };
  check(best({}, {exact}), Match::exact, 16, true);
  check(best({}, {near}), Match::nearest, 32, true);
  check(best({}, {elsewhere}), Match::other_device, 64, true);
  check(best({near, elsewhere}, {exact}), Match::exact, 16, true);
  check(best({elsewhere}, {near}), Match::nearest, 32, true);
  // Among equal matches the user's wins, even if the shipped one is nearer.
  check(best({record("GPU A", 12, 96)}, {exact}), Match::exact, 96, false);
  check(best({less_near}, {near}), Match::nearest, 48, false);
  check(best({own_elsewhere}, {elsewhere}), Match::other_device, 80, false);
  check(best({near}, {elsewhere}), Match::nearest, 32, false);
  CHECK(best({}, {}).match == Match::none);

  const auto not_16 = [](const KernelConfig& config) { return config.tile_m != 16; };
  check(find(TuningStore("", {}, {exact, near}), 12, "GPU A", not_16), Match::nearest, 32, true);
}

TEST_CASE("records of an older format are not used: one message counts them, and they are not damaged") {
  const CapturedLog log;
  fa2::log().set_level(spdlog::level::info);
  const std::string old = R"({"format":1,"config":{"mainloop":90,"pass":7}})";
  const std::string text = old + "\n" + to_json_line(record("GPU A", 12, 16)) + "\n" + old + "\n";
  for (int i = 0; i < 2; ++i) {
    const ParsedRecords parsed = parse_json_lines(text, "old text");
    CHECK(parsed.records.size() == 1);
    CHECK(parsed.outdated == 2);
  }
  CHECK(log.text() == "old text: 2 tuning records of an older format are not used\n");

  TemporaryDirectory dir;
  const std::filesystem::path file = dir / "tuning.jsonl";
  std::ofstream(file) << text;
  CHECK(TuningStore(file).outdated() == 2);
}

TEST_CASE("a text of records is read in order, its damage reported by line") {
  const CapturedLog log;
  const auto records = parse_json_lines(to_json_line(record("GPU A", 12, 16)) + "\nbad\n" +
                                            to_json_line(record("GPU A", 12, 32)),
                                        "some text")
                           .records;
  REQUIRE(records.size() == 2);
  CHECK(records[1].config.tile_m == 32);
  CHECK(log.has("some text:2: not a tuning record"));
  CHECK(parse_json_lines("", "nothing").records.empty());
  CHECK(log.lines() == 1);
}

TEST_CASE("damaged lines are skipped with one warning that names file and line") {
  const TemporaryDirectory directory;
  const CapturedLog log;
  const fs::path file = directory / "tuning.jsonl";
  write_text(file, to_json_line(record("GPU A", 12, 16)) + "\n\ngarbage\n{\"format\":3}\n" +
                       to_json_line(record("GPU A", 13, 32)) + "\n");
  CHECK(TuningStore(file).records().size() == 2);
  CHECK(TuningStore(file).records().size() == 2);
  CHECK(log.lines() == 1);
  CHECK(log.has(file.native() + ":3: not a tuning record of format 2 (2 such lines); skipped"));
}

TEST_CASE("a line torn by a killed writer affects no other line") {
  const TemporaryDirectory directory;
  const CapturedLog log;
  const fs::path file = directory / "tuning.jsonl";
  write_text(file, to_json_line(record("GPU A", 12, 16)) + "\n" + to_json_line(record()).substr(0, 30));
  TuningStore(file).add(record("GPU A", 13, 32));
  CHECK(TuningStore(file).records().size() == 2);
  CHECK(log.has(":2: not a tuning record"));
}

TEST_CASE("if a file cannot be written or read, records only do not persist") {
  const TemporaryDirectory directory;
  const CapturedLog log;
  write_text(directory / "file", "");
  SUBCASE("below a file") {
    TuningStore store(directory / "file" / "tuning.jsonl");
    store.add(record());
    store.add(record("GPU A", 13, 32));
    CHECK(store.records().size() == 2);
    CHECK(log.has("tuning records are not kept on disk: "));
  }
  SUBCASE("a directory") {
    fs::create_directory(directory / "folder");
    TuningStore store(directory / "folder");
    CHECK(log.has((directory / "folder").native() + " is not used: not a regular file"));
    return;
  }
  CHECK(log.lines() == 1);
}

TEST_CASE("threads and processes append whole lines") {
  constexpr int kWriters = 4;
  constexpr int kRecords = 25;
  const TemporaryDirectory directory;
  const fs::path file = directory / "tuning.jsonl";
  std::vector<pid_t> children;
  for (int process = 0; process < kWriters; ++process) {
    children.push_back(fork_child([&] {
      TuningStore store(file);
      for (int i = 0; i < kRecords; ++i) store.add(record("process " + std::to_string(process), 12, i));
      return 0;
    }));
  }
  for (const pid_t child : children) CHECK(wait_for(child) == 0);

  TuningStore store(file);
  CHECK(store.records().size() == kWriters * kRecords);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kWriters; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kRecords; ++i) {
        store.add(record("thread " + std::to_string(thread), 12, i));
        find(store);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(store.records().size() == 2 * kWriters * kRecords);
  const auto records = TuningStore(file).records();
  CHECK(records.size() == 2 * kWriters * kRecords);
  CHECK(std::count_if(records.begin(), records.end(),
                      [](const TuningRecord& each) { return each.device == "process 3"; }) == kRecords);
}

TEST_CASE("a record of a backward pass: its config names the pass, in a file and back") {
  TuningRecord forward = record(), dq = record();
  dq.config.kernel = KernelId::backward_dq_sm80;
  dq.bucket.pass = KernelPass::dq;
  dq.us = 70;
  const auto back = parse_json_line(to_json_line(dq));
  REQUIRE(back.has_value());
  CHECK(back->bucket == dq.bucket);
  CHECK(back->config == dq.config);
  CHECK(to_json_line(dq).find("\"kernel\":\"backward_dq_sm80\"") != std::string::npos);
  CHECK(parse_json_line(to_json_line(forward))->bucket.pass == KernelPass::forward);

  TemporaryDirectory dir;
  const std::filesystem::path file = dir / "tuning.jsonl";
  {
    TuningStore store(file);
    store.add(forward);
    store.add(dq);
  }
  const TuningStore store(file);
  const auto find = [&](KernelPass pass) {
    Bucket bucket = forward.bucket;
    bucket.pass = pass;
    return store.find("GPU A", "sm_90a", 132, bucket, any);
  };
  CHECK(find(KernelPass::forward).record.us == 123.25);
  CHECK(find(KernelPass::dq).match == Match::exact);
  CHECK(find(KernelPass::dq).record.us == 70);
  CHECK(find(KernelPass::dk_dv).match == Match::none);
  CHECK(store.of_traits(forward.bucket.traits, KernelPass::forward, "sm_90a").size() == 1);
  CHECK(store.of_traits(forward.bucket.traits, KernelPass::dq, "sm_90a").at(0).record.us == 70);
  CHECK(store.of_traits(forward.bucket.traits, KernelPass::dv, "sm_90a").empty());
}
