// Texts of scores, and what they capture, in the fa2 command.
#include <doctest/doctest.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/command.h>
#include <tests/support/sanitizers.h>
#include <tools/npy.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#ifdef FA2_COMMAND

namespace {

using namespace fa2::test;
using fa2::tools::write_npy;

constexpr std::int64_t kBatch = 2, kHeads = 4, kQueries = 9, kKeys = 14, kDim = 16;

/// Writes inputs and texts, and returns "run --q ... --check --json".
std::string run_of(const Command& fa2) {
  fa2.write("q", {kBatch, kQueries, kHeads, kDim});
  for (const std::string name : {"k", "v"}) fa2.write(name, {kBatch, kKeys, kHeads / 2, kDim});
  fa2.write("table", {kHeads, kKeys});
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < kBatch * kKeys; ++i)
    ids.push_back(static_cast<std::int32_t>(i % kKeys / (4 + i / kKeys)));
  write_npy(fa2.file("ids"), {{kBatch, kKeys}, ids});
  write_text(fa2.file("bias"), "return gain() * table(at.head, at.key);");
  write_text(fa2.file("mod"), "Score x = score * gain();\nreturn 2 * tanh(x) + 0.1f * at.head;");
  write_text(fa2.file("mask"), "return ids(at.batch, at.query) == ids(at.batch, at.key) || at.key < 2;");
  return "run --device interpreter --check --json" + fa2.option("--q", "q") + fa2.option("--k", "k") +
         fa2.option("--v", "v");
}

std::string captured(const Command& fa2, const std::string& name) {
  return " --capture " + name + "=" + fa2.file(name).string();
}

}  // namespace

TEST_CASE("cli scores: run computes texts with what they capture, like the reference") {
  if (cannot_interpret()) return;
  const Command fa2;
  const std::string run = run_of(fa2) + fa2.option("--out", "o.npy"), gain = " --capture gain=0.5";
  const auto output = [&](const std::string& words) {
    CAPTURE(words);
    const Result result = fa2.run(run + words);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    CHECK(result.json().at("check").at("ok") == true);
    return std::get<std::vector<float>>(fa2::tools::read_npy(fa2.file("o.npy"), {4, 4}).values);
  };
  const std::vector<float> plain = output("");
  const std::string bias = fa2.option("--score-bias", "bias") + captured(fa2, "table"),
                    mod = fa2.option("--score-mod", "mod"),
                    mask = fa2.option("--score-mask", "mask") + captured(fa2, "ids");
  CHECK(output(bias + gain) != plain);
  CHECK(output(bias + gain) != output(bias + " --capture gain=0.75"));
  CHECK(output(mod + gain) != plain);
  CHECK(output(mask) != plain);
  CHECK(output(bias + mod + mask + gain + " --causal --softcap 3") != plain);
}

TEST_CASE("cli scores: run adds a bias tensor, whose rows may have any length") {
  if (cannot_interpret()) return;
  const Command fa2;
  const std::string run = run_of(fa2) + fa2.option("--out", "o.npy") + fa2.option("--bias", "pair");
  for (const std::int64_t keys : {14, 16}) {
    for (const std::string name : {"k", "v"}) fa2.write(name, {kBatch, keys, kHeads / 2, kDim});
    fa2.write("pair", {1, kHeads, kQueries, keys});
    const Result result = fa2.run(run);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    CHECK(result.json().at("check").at("ok") == true);
  }
  for (const std::int64_t keys : {24, 15}) {
    fa2.write("pair", {1, kHeads, kQueries, keys});
    const Result longer = fa2.run(run);
    CHECK(longer.status == 1);
    CHECK(longer.says("), must be (2, 4, 9, 16), each of these or 1"));
  }
  const Result shared = fa2.run(run_of(fa2) + fa2.option("--out", "pair") + fa2.option("--bias", "pair"));
  CHECK(shared.status == 2);
  CHECK(shared.says("--bias"));
}

TEST_CASE("cli scores: run computes gradients of texts like the reference") {
  if (cannot_interpret()) return;
  const Command fa2;
  std::string run = run_of(fa2) + " --backward" + fa2.option("--d-out", "do");
  fa2.write("do", {kBatch, kQueries, kHeads, kDim});
  for (const std::string name : {"dq", "dk", "dv"}) run += fa2.option("--" + name, name);
  run += fa2.option("--score-mod", "mod") + fa2.option("--score-mask", "mask") + captured(fa2, "ids") +
         " --capture gain=0.5";
  const Result result = fa2.run(run);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  for (const char* name : {"dq", "dk", "dv"}) CHECK(result.json().at("check").at(name).at("ok") == true);
}

TEST_CASE("cli scores: the check of gradients finds a slope that is wrong") {
  if (cannot_interpret()) return;
  const Command fa2;
  std::string run = run_of(fa2) + " --backward" + fa2.option("--d-out", "do") + fa2.option("--dq", "dq") +
                    fa2.option("--score-mod", "floats") + fa2.option("--score-mod-slope", "slope");
  fa2.write("do", {kBatch, kQueries, kHeads, kDim});
  write_text(fa2.file("floats"), "return 0.5f * tanh(score / 0.5f);");
  write_text(fa2.file("slope"), "const float t = tanh(score / 0.5f);\nreturn 1.0f - t * t;");
  const Result right = fa2.run(run);
  CAPTURE(right.err);
  CHECK(right.status == 0);
  write_text(fa2.file("slope"), "return 1.0f - tanh(score / 0.5f);");
  const Result wrong = fa2.run(run);
  CHECK(wrong.status == 1);
  CHECK(wrong.json().at("check").at("dq").at("ok") == false);
}

TEST_CASE("cli scores: the check finds a mask that differs inside its blocks") {
  if (cannot_interpret()) return;
  const Command fa2;
  const std::string run = run_of(fa2);
  write_text(fa2.file("mask"), "return at.key / 4 == at.query / 4;");
  const auto with = [&](const std::string& block) {
    return fa2.run(run + fa2.option("--out", "o.npy") + fa2.option("--score-mask", "mask") +
                   " --mask-block " + block);
  };
  CHECK(with("4x4").json().at("check").at("ok") == true);
  CHECK(with("8x4").err.find("mask_block = 8 x 4, must be blocks in which the mask is the same") !=
        std::string::npos);
  for (const std::string wrong : {"4", "4x", "x4", "4x4x4", "fourxfour"})
    CHECK(with(wrong).err.find("--mask-block: " + wrong + ", must be QUERIESxKEYS, as in 128x128") !=
          std::string::npos);
  CHECK(fa2.run(run + " --mask-block 4x4").status != 0);
}

TEST_CASE("cli scores: mistakes of captures") {
  const Command fa2;
  const std::string run = run_of(fa2) + fa2.option("--out", "o.npy") + fa2.option("--score-bias", "bias");
  expect_error(fa2, run + captured(fa2, "table") + " --capture gain:f32", 2,
               "--capture: gain:f32: must have a value: NAME=FILE.npy or NAME=NUMBER");
  expect_error(fa2, run + " --capture gain --capture table=no.npy", 2, "gain: must be NAME=FILE.npy");
  expect_error(fa2, "bench --capture gain=2", 2, "pass --score-bias, --score-mod or --score-mask");
  // The output would replace a capture.
  const Result shared = fa2.run(run_of(fa2) + fa2.option("--out", "table") + captured(fa2, "table") +
                                fa2.option("--score-bias", "bias") + " --capture gain=1");
  CHECK(shared.status == 2);
  CHECK(shared.says("--capture"));
}

TEST_CASE("cli scores: explain shows the kernel of texts whose captures have types alone") {
  if (cannot_interpret()) return;
  const Command fa2;
  run_of(fa2);
  const Result result = fa2.run(
      "explain --device interpreter --json --head-dim 16 --seqlen 16 --capture gain:f32 --capture "
      "table:f32:2" +
      fa2.option("--score-bias", "bias"));
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const Json texts = result.json().at("problem").at("score_text");
  CHECK(texts.at("bias") == "return gain() * table(at.head, at.key);");
  CHECK(texts.at("captures").at(1).at("type") == "f32");
  const Result none =
      fa2.run("explain --device interpreter --head-dim 16 --seqlen 16" + fa2.option("--score-bias", "bias"));
  CHECK(none.status != 0);  // nothing is called gain
}

TEST_CASE(
    "cli scores: logged requests hold texts, so that another process makes a pack that serves a third") {
  if (cannot_interpret()) return;
  const Command fa2;
  const std::string run = run_of(fa2) + fa2.option("--out", "o.npy") + fa2.option("--score-mask", "mask") +
                          captured(fa2, "ids") + fa2.option("--score-mod", "mod") + " --capture gain=0.5",
                    log = fa2.file("requests").string(), pack = fa2.file("k.fa2pack").string(),
                    alone = " FA2_CACHE_TRUST=host FA2_CACHE_DIR=" + fa2.file("empty").string();
  REQUIRE(fa2.run(run, "FA2_LOG_REQUESTS=" + log).status == 0);
  CHECK(read_text(log).find("tanh(x)") != std::string::npos);
  const Result made = fa2.run("precompile --exact --requests " + log + " --out " + pack, alone);
  CAPTURE(made.err);
  REQUIRE(made.status == 0);
  CHECK(fa2.run("pack covers " + pack + " --requests " + log, alone).status == 0);
  std::filesystem::remove_all(fa2.file("empty"));
  const Result served = fa2.run(run, alone + " FA2_JIT=off FA2_CACHE_PATH=" + pack);
  CAPTURE(served.err);
  REQUIRE(served.status == 0);
  for (const Json& kernel : served.json().at("explanation").at("kernels"))
    CHECK(kernel.at("origin") == "read_only_cache");
  CHECK(served.json().at("check").at("ok") == true);
}

#endif
