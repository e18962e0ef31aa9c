// Windows, softcap, ALiBi and sinks in the fa2 command.
#include <doctest/doctest.h>
#include <tests/support/command.h>
#include <tests/support/sanitizers.h>
#include <tools/npy.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#ifdef FA2_COMMAND

namespace {

using namespace fa2::test;
using fa2::tools::write_npy;

constexpr std::int64_t kBatch = 2, kHeads = 4, kQueries = 9, kKeys = 14, kDim = 16;

/// Returns "run --q ..." on random inputs, among them files for `slopes`, `all_slopes` (per batch entry) and
/// `sinks`.
std::string run_of(const Command& fa2) {
  fa2.write("q", {kBatch, kQueries, kHeads, kDim});
  for (const std::string name : {"k", "v"}) fa2.write(name, {kBatch, kKeys, kHeads / 2, kDim});
  fa2.write("slopes", {kHeads});
  fa2.write("all_slopes", {kBatch, kHeads});
  fa2.write("sinks", {kHeads});
  return "run --device interpreter" + fa2.option("--q", "q") + fa2.option("--k", "k") +
         fa2.option("--v", "v") + fa2.option("--out", "o.npy");
}

std::vector<float> output_of(const Command& fa2) {
  return std::get<std::vector<float>>(fa2::tools::read_npy(fa2.file("o.npy"), {4, 4}).values);
}

}  // namespace

TEST_CASE("cli variants: run reads values from keys, and wants them in both files") {
  if (cannot_interpret()) return;
  const Command fa2;
  const std::string run = run_of(fa2) + " --check --json --values-in-keys";
  const Result other = fa2.run(run);
  CHECK(other.status == 2);
  CHECK(other.says("--v: must hold the first columns of --k with --values-in-keys"));
  std::filesystem::copy_file(fa2.file("k"), fa2.file("v"), std::filesystem::copy_options::overwrite_existing);
  const Result found = fa2.run(run);
  CAPTURE(found.err);
  REQUIRE(found.status == 0);
  CHECK(found.json().at("check").at("ok") == true);
  CHECK(found.out.find("forward_wide") != std::string::npos);
}

TEST_CASE("cli variants: run computes each, and all of them, like the reference") {
  if (cannot_interpret()) return;
  const Command fa2;
  const std::string run = run_of(fa2) + " --check --json";
  REQUIRE(fa2.run(run).status == 0);
  const std::vector<float> plain = output_of(fa2);
  const std::string slopes = fa2.option("--alibi", "slopes"),
                    all_slopes = fa2.option("--alibi", "all_slopes"), sinks = fa2.option("--sinks", "sinks");
  for (const std::string& words :
       {std::string(" --window-left 3"), std::string(" --window-right 2"),
        std::string(" --causal --attention-chunk 5"), std::string(" --causal --window-left 0"),
        std::string(" --mask causal_top_left --window-left 5"), std::string(" --softcap 0.5"), slopes,
        all_slopes, sinks, std::string(" --dropout 0.3"),
        std::string(" --dropout 0.3 --seed 18446744073709551615 --offset 5"),
        " --window-left 4 --window-right 1 --softcap 2 --causal --dropout 0.5" + all_slopes + sinks}) {
    CAPTURE(words);
    const Result result = fa2.run(run + words);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    CHECK(result.json().at("check").at("ok") == true);
    CHECK(output_of(fa2) != plain);
  }
  const Json problem =
      fa2.run(run + " --window-left 3 --softcap 2" + sinks).json().at("explanation").at("problem");
  CHECK(problem.at("window_left") == 3);
  CHECK(problem.at("window_right").is_null());
  CHECK(problem.at("softcap") == true);
  CHECK(problem.at("alibi") == false);
  CHECK(problem.at("sinks") == true);
}

TEST_CASE("cli: run writes LSE to base 2 and the largest logits, on fewer SMs") {
  if (cannot_interpret()) return;
  const Command fa2;
  const std::string run = run_of(fa2) + " --check --json" + fa2.option("--lse", "lse.npy");
  const auto floats = [&](const char* name) {
    return std::get<std::vector<float>>(fa2::tools::read_npy(fa2.file(name), {2, 3}).values);
  };
  REQUIRE(fa2.run(run).status == 0);
  const std::vector<float> natural = floats("lse.npy");
  const Result result =
      fa2.run(run + " --lse-base two --sm-margin 1" + fa2.option("--max-logits", "logits.npy"));
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(result.json().at("check").at("message").get<std::string>().find("; max_logits error") !=
        std::string::npos);
  CHECK(result.json().at("explanation").at("problem").at("sm_margin") == 1);
  const std::vector<float> two = floats("lse.npy");
  for (std::size_t i = 0; i < two.size(); ++i) CHECK(two[i] == doctest::Approx(natural[i] * 1.442695f));
  CHECK(floats("logits.npy").size() == kBatch * kHeads);
  CHECK(fa2.run(run + " --sm-margin 2").err.find("sm_margin = 2, must be in 0..1") != std::string::npos);
}

TEST_CASE("cli: run rounds keys and values to 8 bits, and undoes their factors") {
  if (cannot_interpret()) return;
  const Command fa2;
  const std::string run = run_of(fa2) + " --check --json";
  REQUIRE(fa2.run(run).status == 0);
  const std::vector<float> plain = output_of(fa2);
  const auto largest_difference = [&](const std::string& words) {
    CAPTURE(words);
    const Result result = fa2.run(run + " --kv-type e4m3" + words);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    CHECK(result.json().at("check").at("ok") == true);
    CHECK(result.json().at("explanation").at("problem").at("kv_type") == "e4m3");
    float largest = 0;
    const std::vector<float> bytes = output_of(fa2);
    for (std::size_t i = 0; i < plain.size(); ++i) largest = std::max(largest, std::abs(bytes[i] - plain[i]));
    return largest;
  };
  // Every factor brings random numbers near 1 into the range of 8 bits; 0.0001 drives the largest beyond 448.
  for (const char* words :
       {"", " --k-scale 0.25", " --v-scale 0.01", " --k-scale 0.1 --v-scale 3 --dtype bf16"}) {
    CHECK(largest_difference(words) > 0);
    CHECK(largest_difference(words) < 0.25f);
  }
  CHECK(largest_difference(" --v-scale 0.0001") > 0.25f);

  const Result unused = fa2.run(run + " --k-scale 2");
  CHECK(unused.status == 2);
  CHECK(unused.err.find("pass --kv-type e4m3") != std::string::npos);
  CHECK(fa2.run(run + " --kv-type e4m3 --v-scale 0").status == 2);
}

TEST_CASE("cli variants: run says what is wrong with a number") {
  const Command fa2;
  const std::string run = run_of(fa2);
  const auto says = [&](const std::string& words, int status, const std::string& text) {
    CAPTURE(words);
    const Result result = fa2.run(run + " " + words);
    CAPTURE(result.err);
    CHECK(result.status == status);
    CHECK(result.out.empty());
    CHECK(result.says(text));
    CHECK_FALSE(std::filesystem::exists(fa2.file("o.npy")));
  };
  says("--window-left -1", 1, "window_left = -1, must be at least 0, or absent for no bound");
  says("--window-right -7", 1, "window_right = -7, must be at least 0");
  says("--window-left few", 2, "--window-left");
  says("--softcap 0", 1, "softcap = 0, must be finite and above 0");
  says("--softcap -3", 1, "softcap = -3, must be finite and above 0");
  says("--softcap nan", 1, "softcap = nan, must be finite and above 0");
  says("--softcap inf", 1, "softcap = inf, must be finite and above 0");
  says("--dropout 1", 1, "dropout.probability = 1, must be at least 0 and less than 1");
  says("--dropout -0.1", 1, "dropout.probability = -0.1, must be at least 0");
  says("--dropout nan", 1, "dropout.probability = nan, must be at least 0");
  says("--seed 3", 2, "--seed requires --dropout");
  says("--dropout 0.1 --seed -3", 2, "--seed");
  for (const std::string flag : {"--window-left", "--window-right", "--softcap", "--alibi", "--sinks"})
    says(flag, 2, flag);

  const std::string file = fa2.file("x").string();
  says("--sinks " + file, 1, file + ": No such file");
  fa2.write("x", {kHeads + 1});
  says("--sinks " + file, 1, "x: shape = (5,), must be (4,)");
  says("--alibi " + file, 1, "x: shape = (5,), must be (4,) or (2, 4)");
  fa2.write("x", {kHeads, kBatch});
  says("--alibi " + file, 1, "x: shape = (4, 2), must be (4,) or (2, 4)");
  fa2.write("x", {kBatch, kHeads});
  says("--sinks " + file, 1, "x: shape = (2, 4) of rank 2, must have rank 1");
  fa2.write("x", {kBatch, kHeads, 1});
  says("--alibi " + file, 1, "x: shape = (2, 4, 1) of rank 3, must have rank 1 or 2");
  write_npy(fa2.file("x"), {{kHeads}, std::vector<std::uint16_t>(kHeads)});
  says("--alibi " + file, 1, "x: dtype = float16, must be float32");
}

TEST_CASE("cli variants: every verb that takes a problem takes variants, and says what is wrong") {
  const Command fa2;
  for (const std::string verb : {"run", "bench", "tune", "precompile", "explain", "dump"}) {
    CAPTURE(verb);
    const std::string help = fa2.run(verb + " --help").out;
    for (const std::string flag :
         {"--window-left", "--window-right", "--softcap", "--alibi", "--sinks", "--dropout"})
      CHECK(help.find(flag) != std::string::npos);
  }
  for (const std::string verb : {"bench", "tune", "explain", "dump --source --arch sm_80"}) {
    CAPTURE(verb);
    const Result result = fa2.run(verb + " --window-left -1");
    CHECK(result.status == 2);
    CHECK(result.says("window_left = -1, must be at least 0"));
    CHECK(fa2.run(verb + " --softcap 30").status == 2);
  }
  CHECK(fa2.run("precompile --arch sm_80 --window-left 4096").says("4096 not in {yes,no,both}"));
}

TEST_CASE("cli variants: explain and dump show the kernel of a variant") {
  const Command fa2;
  const std::string words = " --arch interpreter --head-dim 16 --window-left 100 --softcap --sinks";
  const Json explanation = fa2.run("explain --json" + words).json();
  CHECK(explanation.at("problem").at("window_left") == 100);
  CHECK(explanation.at("problem").at("softcap") == true);
  const std::string text = fa2.run("dump --source" + words).out;
  for (const std::string line :
       {"window_left = true", "window_right = false", "softcap = true", "alibi = false", "sinks = true"})
    CHECK(text.find("static constexpr bool " + line) != std::string::npos);
  // The key does not depend on the width.
  const auto key = [&](const std::string& width) {
    return fa2.run("dump --source --json --arch sm_80 --head-dim 16 --causal" + width).json().at("key");
  };
  CHECK(key(" --window-left 100") == key(" --window-left 101"));
  CHECK(key(" --window-left 100") != key(""));
}

TEST_CASE(
    "cli variants: precompile names the variants of a pack, and the command for a missing kernel names its "
    "own") {
  const Command fa2;
  const std::string one = " --arch sm_80 --head-dim 16 --dtype f16 --causal yes --alignment element --json";
  const auto variants = [&](const std::string& words) {
    // Without a compiler every kernel fails, but all are listed.
    return fa2.run("precompile" + one + words + fa2.option("--out", "pack"), "FA2_NVRTC=/none.so")
        .json()
        .at("variants");
  };
  CHECK(variants("") == Json{"plain"});
  CHECK(variants(" --softcap --window-left both") == Json{"softcap", "window_left softcap"});
  CHECK(variants(" --sinks both") == Json{"plain", "sinks"});

  const Result missing =
      fa2.run("explain --arch sm_80 --head-dim 16 --window-left 77 --softcap", "FA2_JIT=off");
  CHECK(missing.status == 1);
  CHECK(missing.says("--alignment bytes16 --window-left --softcap --out DIR"));
}

#else
TEST_CASE("cli variants") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif
