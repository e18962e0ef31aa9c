// The output of fa2 precompile before, during and after compiling.
#include <core/arch.h>
#include <doctest/doctest.h>
#include <tests/support/command.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#ifdef FA2_COMMAND

namespace {

using namespace fa2::test;

const std::string kFew = " --arch sm_80 --head-dim 16 --dtype f16 --causal no";

/// Returns the number of kernels per arch in the dry run.
std::vector<std::pair<std::string, int>> dry_run(const Command& fa2, const std::string& flags) {
  const Result result = fa2.run("precompile --dry-run --json" + flags);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  std::vector<std::pair<std::string, int>> kernels;
  const Json document = result.json();
  for (const Json& arch : document.at("archs")) kernels.emplace_back(arch.at("arch"), arch.at("kernels"));
  return kernels;
}

}  // namespace

TEST_CASE("cli precompile: the numbers of kernels in docs/deployment.md agree with the dry run") {
  const Command fa2;
  std::string archs;
  for (const fa2::Arch& arch : fa2::known_archs())
    archs += (archs.empty() ? "" : ",") + std::string(arch.name);
  int hopper = 0, least = 1 << 20, most = 0;
  for (const auto& [arch, kernels] : dry_run(fa2, " --head-dim 64,128 --dtype f16 --arch " + archs)) {
    if (arch == "sm_90a") {
      hopper = kernels;
      continue;
    }
    least = std::min(least, kernels);
    most = std::max(most, kernels);
  }
  const std::string document = read_text(FA2_SOURCE_DIR "/docs/deployment.md");
  std::smatch found;
  REQUIRE(std::regex_search(
      document, found,
      std::regex("for fp16 at these head dims ([0-9]+) kernels on sm_90a and ([0-9]+) to ([0-9]+) on")));
  CHECK(found[1] == std::to_string(hopper));
  CHECK(found[2] == std::to_string(least));
  CHECK(found[3] == std::to_string(most));
}

TEST_CASE("cli precompile: a dry run counts the kernels that a run then makes, and compiles nothing") {
  const Command fa2;
  const Result dry =
      fa2.run("precompile --dry-run --json --backward --append --merge" + kFew, "FA2_NVRTC=/none.so");
  REQUIRE(dry.status == 0);
  const Json arch = dry.json().at("archs").at(0);
  CHECK(arch.at("binary_bytes") > 10000);
  CHECK(arch.at("core_seconds") > 1);
  CHECK(dry.json().at("source").get<std::string>().find("NVRTC") != std::string::npos);
  const Json made =
      fa2.run("precompile --json --backward --append --merge" + kFew, "FA2_NVRTC=/none.so").json();
  CHECK(arch.at("kernels") == made.at("kernels").size());
  CHECK(made.at("failed") == made.at("kernels").size());
  const std::string text = fa2.run("precompile --dry-run" + kFew, "FA2_NVRTC=/none.so").out;
  CHECK(text.find("nothing was compiled") != std::string::npos);
  CHECK(text.find("Sizes and times are estimates") != std::string::npos);
}

TEST_CASE("cli precompile: a backward of 8-bit keys is refused, once for all problems") {
  const Command fa2;
  for (const char* mode : {"", " --dry-run"}) {
    const Result refused =
        fa2.run("precompile --arch sm_80 --head-dim 16 --backward --kv-type e4m3" + std::string(mode));
    CHECK(refused.status == 2);
    CHECK(refused.says("kv_type = e4m3, must be same: gradients of 8-bit keys and values are not computed"));
    CHECK_FALSE(refused.says("problems["));
  }
}

TEST_CASE("cli precompile: a GPU's name selects the kernels of its arch, and help lists the names") {
  const Command fa2;
  const std::string rest = " --head-dim 16 --dtype f16 --causal no";
  CHECK(dry_run(fa2, rest + " --arch H100,a100,l40s") == dry_run(fa2, rest + " --arch sm_90a,sm_80,sm_89"));
  const Result help = fa2.run("precompile --help");
  for (const char* gpu : {"a100", "a10", "l4", "l40s", "rtx4090", "h100", "h200", "b200"})
    CHECK(help.out.find(gpu) != std::string::npos);
  const Result unknown = fa2.run("precompile --arch v100" + rest);
  CHECK(unknown.status == 2);
  CHECK(unknown.says("\"v100\" is not known"));
}

TEST_CASE("cli precompile: if stderr is not a terminal, progress is one line per tenth") {
  const Command fa2;
  const Result result = fa2.run("precompile --arch sm_80 --head-dim 16,64 --dtype f16 --causal both --jobs 1",
                                "FA2_NVRTC=/none.so");
  std::istringstream lines(result.err);
  std::string line;
  int progress = 0;
  while (std::getline(lines, line)) progress += line.starts_with("precompiling ");
  CHECK(progress == 10);
  CHECK(result.err.find('\r') == std::string::npos);
  CHECK(result.err.find('\x1b') == std::string::npos);
  CHECK(result.err.find("0 s left: sm_80 ") != std::string::npos);
  const Result json = fa2.run("precompile --json --arch sm_80 --head-dim 16,64 --dtype f16 --causal both",
                              "FA2_NVRTC=/none.so");
  CHECK(json.err.find("precompiling") == std::string::npos);
}

TEST_CASE("cli precompile: --hf sets the flags that a model needs, and names the keys") {
  const Command fa2;
  const std::string hf = " --hf " FA2_SOURCE_DIR "/tests/hf_configs/";
  CHECK(dry_run(fa2, " --arch sm_80" + hf + "gpt_oss.json") ==
        dry_run(fa2, " --arch sm_80 --head-dim 64 --dtype bf16 --causal yes --window-left both --sinks"));
  const Result text = fa2.run("precompile --dry-run --arch sm_80" + hf + "gemma2.json --dtype bf16");
  CHECK(text.out.find("(attn_logit_softcapping)") != std::string::npos);
  CHECK(text.out.find("--head-dim 256 --dtype bf16 --causal yes --softcap yes --window-left both") !=
        std::string::npos);
  const Json json = fa2.run("precompile --dry-run --json --arch sm_80" + hf + "llama.json").json();
  CHECK(json.at("hf").at("head dim") == "128 (hidden_size / num_attention_heads)");

  const Result float32 = fa2.run("precompile --dry-run --arch sm_80" + hf + "gemma2.json");
  CHECK(float32.status == 1);
  CHECK(float32.says("must be one of them: add --dtype f16 or bf16"));
  const Result beside = fa2.run("precompile --dry-run --arch sm_80 --head-dim 64" + hf + "llama.json");
  CHECK(beside.status == 2);
  CHECK(beside.says("--hf excludes --head-dim"));
  const Result missing = fa2.run("precompile --dry-run --arch sm_80 --hf /nowhere/config.json");
  CHECK(missing.status == 1);
  CHECK(missing.says("/nowhere/config.json"));
}

#else
TEST_CASE("cli precompile") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif
