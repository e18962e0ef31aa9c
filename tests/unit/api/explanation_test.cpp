// Reports as JSON and text.
#include <api/explanation.h>
#include <doctest/doctest.h>
#include <tools/explanation_text.h>

#include <nlohmann/json.hpp>
#include <string>

using namespace fa2;

namespace {

Explanation example() {
  Explanation e;
  e.problem.head_dim = 128;
  e.problem = e.problem.normalized();
  e.arch = "sm_90a";
  KernelReport& kernel = e.kernels.emplace_back();
  kernel.config.tile_n = 96;
  kernel.config_origin = ConfigOrigin::tuned_nearest;
  kernel.config_reason = "a record";
  kernel.key = "0123";
  kernel.key_parts = {{"options", "-O3\n-lineinfo"}, {"arch", "sm_90a"}};
  kernel.origin = KernelOrigin::compiled;
  kernel.compile_ms = 412.25;
  kernel.resources.registers = 168;
  return e;
}

}  // namespace

TEST_CASE("explanation: JSON holds every part") {
  const nlohmann::json json = nlohmann::json::parse(to_json(example()));
  CHECK(json["problem"]["head_dim_v"] == 128);
  CHECK(json["problem"]["mask"] == "none");
  CHECK_FALSE(json["problem"].contains("row_alignment"));
  CHECK(json["row_alignment"] == "bytes16");
  REQUIRE(json["kernels"].size() == 1);
  const nlohmann::json& kernel = json["kernels"][0];
  CHECK(kernel["config"]["tile_n"] == 96);
  CHECK(kernel["config"].size() >= 7);
  CHECK(kernel["config_origin"] == "tuned_nearest");
  CHECK(kernel["origin"] == "compiled");
  CHECK(kernel["key_parts"][1]["value"] == "sm_90a");
  CHECK(kernel["compile_ms"] == 412.25);
  CHECK(kernel["resources"]["registers"] == 168);
}

TEST_CASE("explanation: text that is not UTF-8 does not break the JSON") {
  Explanation e = example();
  e.kernels[0].path = "/tmp/\xff/kernel";
  CHECK(nlohmann::json::parse(to_json(e))["kernels"][0]["path"] == "/tmp/\xEF\xBF\xBD/kernel");
}

TEST_CASE("explanation: text is aligned, leaves out what is empty, and indents what has several lines") {
  const std::string text = tools::to_text(example());
  CHECK(text.rfind("problem        f16 d128 none batch 1 heads 1/1 seqlen 0x0\n", 0) == 0);
  CHECK(text.find("chosen         tuned_nearest: a record\n") != std::string::npos);
  CHECK(text.find("  options      -O3\n               -lineinfo\n") != std::string::npos);
  CHECK(text.find("device") == std::string::npos);
  CHECK(text.find("notes") == std::string::npos);
  CHECK(text.back() == '\n');
}

TEST_CASE("explanation: the text lists guarantees of the plan that are not the default") {
  Explanation e = example();
  e.options.row_alignment = RowAlignment::element;
  CHECK(tools::to_text(e).rfind("problem        f16 d128 none batch 1 heads 1/1 seqlen 0x0 element\n", 0) ==
        0);
}

TEST_CASE("explanation: says whether sm_margin limits a kernel") {
  Explanation e = example();
  e.kernels.push_back(e.kernels[0]);
  e.kernels[1].is_persistent = true;
  const nlohmann::json json = nlohmann::json::parse(to_json(e));
  CHECK(json["kernels"][0]["is_persistent"] == false);
  CHECK(json["kernels"][1]["is_persistent"] == true);
  const std::string text = tools::to_text(e);
  CHECK(text.find("grid           a block per tile\n") != std::string::npos);
  CHECK(text.find("grid           persistent blocks, which sm_margin limits\n") != std::string::npos);
}

TEST_CASE("explanation: every kernel of a plan is explained, in order") {
  Explanation e = example();
  e.kernels.push_back(e.kernels[0]);
  e.kernels[1].key = "4567";
  const nlohmann::json json = nlohmann::json::parse(to_json(e));
  REQUIRE(json["kernels"].size() == 2);
  CHECK(json["kernels"][1]["key"] == "4567");
  const std::string text = tools::to_text(e);
  CHECK(text.find("0123") < text.find("4567"));
  CHECK(text.find("4567") != std::string::npos);
}

TEST_CASE("reports: a search and a precompilation") {
  TuneReport report;
  report.bucket = "b";
  report.candidates.resize(2);
  report.candidates[1].dropped = "slower";
  const nlohmann::json tuned = nlohmann::json::parse(to_json(report));
  CHECK(tuned["bucket"] == "b");
  CHECK(tuned["candidates"][1]["dropped"] == "slower");

  CHECK(to_json(std::vector<PrecompiledKernel>{}) == "[]");
  PrecompiledKernel kernel;
  kernel.arch = "sm_80";
  kernel.error = "no compiler";
  const nlohmann::json kernels = nlohmann::json::parse(to_json(std::vector<PrecompiledKernel>{kernel}));
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0]["error"] == "no compiler");
  CHECK(kernels[0]["arch"] == "sm_80");
}
