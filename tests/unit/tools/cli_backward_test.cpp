// Gradients in the fa2 command.
#include <doctest/doctest.h>
#include <tests/support/command.h>
#include <tests/support/sanitizers.h>
#include <tools/npy.h>

#include <cstdint>
#include <string>
#include <vector>

#ifdef FA2_COMMAND

namespace {

using namespace fa2::test;
using fa2::tools::read_npy;
using fa2::tools::write_npy;

using Shape = std::vector<std::int64_t>;

const Shape kOfQueries = {2, 9, 4, 16}, kOfKeys = {2, 14, 2, 16}, kOfLse = {2, 4, 9};

/// Returns "run --q ..." on random inputs, among them files for `do` and `dlse`.
std::string run_of(const Command& fa2) {
  for (const std::string name : {"q", "do"}) fa2.write(name, kOfQueries);
  for (const std::string name : {"k", "v"}) fa2.write(name, kOfKeys);
  fa2.write("dlse", kOfLse);
  return "run --device interpreter" + fa2.option("--q", "q") + fa2.option("--k", "k") +
         fa2.option("--v", "v");
}

std::string backward_of(const Command& fa2) {
  return run_of(fa2) + " --backward --check --json" + fa2.option("--d-out", "do");
}

std::string outputs_of(const Command& fa2) {
  return fa2.option("--dq", "dq") + fa2.option("--dk", "dk") + fa2.option("--dv", "dv");
}

std::vector<float> values_of(const Command& fa2, const std::string& name) {
  return std::get<std::vector<float>>(read_npy(fa2.file(name), {3, 4}).values);
}

}  // namespace

TEST_CASE("cli backward: run computes the same gradients as the reference") {
  if (cannot_interpret()) return;
  const Command fa2;
  const std::string run = backward_of(fa2), outputs = outputs_of(fa2);
  const Result result = fa2.run(run + outputs + " --causal --softcap 2");
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const Json json = result.json();
  CHECK(json.at("explanation").at("kernels").size() > 1);
  CHECK(json.at("time").is_null());
  CHECK(json.at("check").at("ok") == true);
  for (const std::string name : {"dq", "dk", "dv"}) {
    CAPTURE(name);
    CHECK(json.at("check").at(name).at("limit") > 0);
    CHECK(read_npy(fa2.file(name), {4, 4}).shape == (name == "dq" ? kOfQueries : kOfKeys));
  }
  const std::vector<float> softcapped = values_of(fa2, "dq");
  CHECK(fa2.run(run + outputs + " --causal").status == 0);
  const std::vector<float> causal = values_of(fa2, "dq");
  CHECK(causal != softcapped);
  CHECK(fa2.run(run + outputs + " --causal" + fa2.option("--d-lse", "dlse")).status == 0);
  CHECK(values_of(fa2, "dq") != causal);

  for (const std::string name : {"q", "do"}) fa2.write(name, {2, 4, 9, 16});
  for (const std::string name : {"k", "v"}) fa2.write(name, {2, 2, 14, 16});
  CHECK(fa2.run(run + outputs + " --layout bhsd --dtype bf16").status == 0);
  CHECK(read_npy(fa2.file("dk"), {4, 4}).shape == Shape{2, 2, 14, 16});
}

TEST_CASE("cli backward: run computes only gradients with a file, from a given output") {
  if (cannot_interpret()) return;
  const Command fa2;
  const std::string run = backward_of(fa2), dv = fa2.option("--dv", "dv");
  const Result alone = fa2.run(run + dv);
  REQUIRE(alone.status == 0);
  CHECK(alone.json().at("explanation").at("kernels").size() == 1);
  CHECK_FALSE(alone.json().at("check").contains("dq"));
  const std::string of_queries = run + fa2.option("--dq", "dq");
  CHECK(fa2.run(of_queries).status == 0);
  const std::vector<float> computed = values_of(fa2, "dq");

  const std::string forward = fa2.option("--out", "o") + fa2.option("--lse", "lse");
  REQUIRE(fa2.run(run_of(fa2) + fa2.option("--out", "o") + fa2.option("--lse", "lse")).status == 0);
  CHECK(fa2.run(of_queries + forward).status == 0);
  // O was rounded to float16 before it was written, so nothing is lost.
  CHECK(values_of(fa2, "dq") == computed);

  fa2.write("o", kOfQueries);  // the output of another call
  const Result wrong = fa2.run(run + outputs_of(fa2) + forward);
  CHECK(wrong.status == 1);
  CHECK(wrong.json().at("check").at("ok") == false);
  CHECK(wrong.json().at("check").at("dv").at("ok") == true);  // dV does not depend on O
  CHECK(wrong.says("fa2 run: dk FAILED: "));
}

TEST_CASE("cli backward: run says which flags exclude each other") {
  const Command fa2;
  const std::string run = run_of(fa2), out = fa2.option("--out", "o"), d_out = fa2.option("--d-out", "do"),
                    dq = fa2.option("--dq", "dq"), lse = fa2.option("--lse", "lse");
  const auto refuses = [&](const std::string& words, const std::string& text) {
    expect_error(fa2, run + words, 2, text);
  };
  refuses("", "--out is required");
  refuses(out + d_out, "--d-out requires --backward");
  refuses(out + dq, "--dq requires --backward");
  refuses(" --backward" + dq, "--backward requires --d-out");
  refuses(" --backward" + d_out, "One of --dq, --dk and --dv is required");
  refuses(" --backward" + d_out + dq + out, "--out requires --lse");
  refuses(" --backward" + d_out + dq + lse, "--lse requires --out");
}

TEST_CASE("cli backward: run names the file that is wrong") {
  const Command fa2;
  const std::string run = backward_of(fa2) + fa2.option("--dq", "dq");
  const auto says = [&](const std::string& words, const std::string& text) {
    const Result result = fa2.run(run + words);
    CAPTURE(result.err);
    CHECK(result.status == 1);
    CHECK(result.says(text));
    CHECK_FALSE(std::filesystem::exists(fa2.file("dq")));
  };
  says(fa2.option("--dk", "none/dk"), "none/dk: No such file or directory");
  fa2.write("lse", {2, 9, 4});
  says(fa2.option("--d-lse", "lse"), "lse: shape = (2, 9, 4), must be (2, 4, 9)");
  says(fa2.option("--out", "k") + fa2.option("--lse", "dlse"),
       "k: shape = (2, 14, 2, 16), must be (2, 9, 4, 16)");
  write_npy(fa2.file("lse"), {kOfLse, std::vector<std::uint16_t>(72)});
  says(fa2.option("--d-lse", "lse"), "lse: dtype = float16, must be float32");
  fa2.write("do", {2, 9, 4, 8});
  says("", "do: shape = (2, 9, 4, 8), must be (2, 9, 4, 16)");
  std::filesystem::remove(fa2.file("do"));
  says("", fa2.file("do").string() + ": No such file");
}

TEST_CASE("cli backward: explain shows every kernel of the plan") {
  const Command fa2;
  const std::string explain = "explain --backward --arch interpreter --head-dim 16";
  const Json kernels = fa2.run(explain + " --json").json().at("kernels");
  REQUIRE(kernels.size() == 3);
  for (const Json& kernel : kernels) {
    CHECK(kernel.at("config").at("kernel").get<std::string>().starts_with("backward_"));
    CHECK_FALSE(kernel.at("config_reason").get<std::string>().empty());
    CHECK(kernel.at("key").get<std::string>().size() == 32);
  }
  const std::string text = fa2.run(explain).out;
  for (const std::string line : {"1 of 3: backward_delta\n", "2 of 3: backward_", "3 of 3: backward_"})
    CHECK(text.find(line) != std::string::npos);
  CHECK(fa2.run("explain --arch interpreter --head-dim 16").out.find("launch") == std::string::npos);
  CHECK(fa2.run("explain --backward --arch sm_80 --head-dim 7").status == 2);
  // A device's plan is the same.
  const Json planned = fa2.run("explain --backward --head-dim 16 --json", "FA2_DEVICE=interpreter").json();
  REQUIRE(planned.at("kernels").size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(planned.at("kernels")[i].at("key") == kernels[i].at("key"));

  const std::string bitwise = fa2.run(explain + " --determinism bitwise").out;
  CHECK(bitwise.find("2 of 3: backward_ordered_sm90\n") != std::string::npos);
  CHECK(bitwise.find("bitwise gradients follow no measurement") != std::string::npos);
  CHECK(fa2.run("explain --determinism bitwise --head-dim 16").says("--determinism requires --backward"));

  const Result missing = fa2.run("explain --backward --arch sm_80 --head-dim 16", "FA2_JIT=off");
  CHECK(missing.status == 1);
  CHECK(missing.says("fa2 precompile"));
}

TEST_CASE("cli backward: bench supports it") {
  const Command fa2;
  for (const std::string verb : {"run", "bench", "tune", "explain"})
    CHECK(fa2.run(verb + " --help").out.find("--determinism") != std::string::npos);
  const std::string help = fa2.run("bench --help").out;
  CHECK(help.find("--backward") != std::string::npos);
  CHECK(help.find("2.5 times") != std::string::npos);
  CHECK(fa2.run("bench --backward").says("no GPU was found"));
}

#else
TEST_CASE("cli backward") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif
