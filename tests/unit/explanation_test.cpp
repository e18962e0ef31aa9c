// Reports as JSON and text.
#include <api/explanation.h>
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

using namespace fa2;

namespace {

Explanation example() {
  Explanation e;
  e.problem.head_dim = 128;
  e.problem = e.problem.normalized();
  e.arch = "sm_90a";
  e.config.tile_n = 96;
  e.config_origin = ConfigOrigin::tuned_nearest;
  e.config_reason = "a record";
  e.key = "0123";
  e.key_parts = {{"options", "-O3\n-lineinfo"}, {"arch", "sm_90a"}};
  e.kernel_origin = KernelOrigin::compiled;
  e.compile_ms = 412.25;
  e.resources.registers = 168;
  return e;
}

}  // namespace

TEST_CASE("explanation: JSON holds every part") {
  const nlohmann::json json = nlohmann::json::parse(to_json(example()));
  CHECK(json["problem"]["head_dim_v"] == 128);
  CHECK(json["problem"]["mask"] == "none");
  CHECK(json["config"]["tile_n"] == 96);
  CHECK(json["config"].size() >= 7);
  CHECK(json["config_origin"] == "tuned_nearest");
  CHECK(json["kernel_origin"] == "compiled");
  CHECK(json["key_parts"][1]["value"] == "sm_90a");
  CHECK(json["compile_ms"] == 412.25);
  CHECK(json["resources"]["registers"] == 168);
}

TEST_CASE("explanation: text that is not UTF-8 does not break the JSON") {
  Explanation e = example();
  e.kernel_path = "/tmp/\xff/kernel";
  CHECK(nlohmann::json::parse(to_json(e))["kernel_path"] == "/tmp/\xEF\xBF\xBD/kernel");
}

TEST_CASE("explanation: text is aligned, leaves out what is empty, and indents what has several lines") {
  const std::string text = to_text(example());
  CHECK(text.rfind("problem        f16 d128 none batch 1 heads 1/1 seqlen 0x0\n", 0) == 0);
  CHECK(text.find("chosen         tuned_nearest: a record\n") != std::string::npos);
  CHECK(text.find("  options      -O3\n               -lineinfo\n") != std::string::npos);
  CHECK(text.find("device") == std::string::npos);
  CHECK(text.find("notes") == std::string::npos);
  CHECK(text.back() == '\n');
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
