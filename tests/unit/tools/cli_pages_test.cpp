// Paged KV in the fa2 command.
#include <doctest/doctest.h>
#include <generator/kernel_kind.h>
#include <tests/support/command.h>
#include <tests/support/sanitizers.h>
#include <tools/npy.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#ifdef FA2_COMMAND

namespace {

using namespace fa2::test;
using fa2::tools::write_npy;

/// Returns "run ..." for two sequences with two queries each, over six pages of eight keys, with tables of
/// pages and lengths.
std::string run_of(const Command& fa2) {
  fa2.write("q", {2, 2, 4, 16});
  for (const std::string name : {"k", "v"}) fa2.write(name, {6, 8, 2, 16});
  write_npy(fa2.file("pages"), {{2, 3}, std::vector<std::int32_t>{5, 0, 3, 5, 1, 77}});
  write_npy(fa2.file("lengths"), {{2}, std::vector<std::int32_t>{20, 16}});
  return "run --device interpreter --check --json" + fa2.option("--q", "q") + fa2.option("--k", "k") +
         fa2.option("--v", "v") + fa2.option("--out", "o.npy");
}

}  // namespace

TEST_CASE("cli pages: run computes the same over pages as the reference") {
  if (cannot_interpret()) return;
  const Command fa2;
  const Result result = fa2.run(run_of(fa2) + " --causal" + fa2.option("--page-table", "pages") +
                                fa2.option("--seqused-k", "lengths"));
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(result.json().at("check").at("ok") == true);
  const Json problem = result.json().at("explanation").at("problem");
  CHECK(problem.at("varlen") == true);
  CHECK(problem.at("page_size") == 8);
  CHECK(problem.at("page_count") == 6);
  CHECK(problem.at("seqlen_k") == 24);
}

TEST_CASE("cli pages: run says what is wrong with a table before it looks for a kernel") {
  const Command fa2;
  const std::string run = run_of(fa2);
  const auto says = [&](const std::string& words, const std::string& text) {
    expect_error(fa2, run + words, 1, text, "FA2_JIT=off");
  };
  says(fa2.option("--page-table", "pages"), "page_table[1][2] = 77, must be in 0..5: a page of K and V");
  says(fa2.option("--page-table", "lengths"), "lengths");
  write_npy(fa2.file("three"), {{3, 1}, std::vector<std::int32_t>{1, 2, 3}});
  says(fa2.option("--page-table", "three"), "q's batch = 2, must be that of page_table, 3");
  fa2.write("v", {5, 8, 2, 16});
  says(fa2.option("--page-table", "pages"), "v's pages = 5, must be that of k, 6");
}

TEST_CASE("cli pages: verbs of a problem need no number of pages, and say what pages require") {
  const Command fa2;
  const std::string cache =
      " --arch sm_90a --head-dim 16 --page-size 16 --batch 3 --seqlen-q 1 --seqlen-k 33";
  for (const std::string verb : {"explain", "dump --source"}) {
    CHECK(fa2.run(verb + cache).says("page_size = 16, must be 0, or varlen true"));
    CHECK(fa2.run(verb + cache).status == 2);
  }
  CHECK(fa2.run("dump --source --varlen" + cache).status == 0);
  CHECK(fa2.run("tune --varlen --page-size 16").says("no GPU was found"));
  const Result missing = fa2.run("explain --varlen" + cache, "FA2_JIT=off");
  CHECK(missing.says("--varlen --page-size 16 --out DIR"));
  const Result refused =
      fa2.run("precompile --arch sm_90a --page-size 16" + fa2.option("--out", "pack"), "FA2_NVRTC=/none.so");
  CHECK(refused.status == 2);
  CHECK(refused.says("page_size = 16, must be 0, or varlen true"));
  const Result made = fa2.run(
      "precompile --arch sm_90a --varlen --page-size 16" + fa2.option("--out", "pack"), "FA2_NVRTC=/none.so");
  CHECK(made.says("/none.so"));
}

TEST_CASE("cli pages: precompile makes one append and one merge kernel") {
  const Command fa2;
  const Result result = fa2.run(
      "precompile --arch sm_80 --head-dim 16 --dtype f16 --causal both --varlen --page-size 16 --append "
      "--merge "
      "--json" +
          fa2.option("--out", "pack"),
      "FA2_NVRTC=/none.so");
  const Json made = result.json();
  std::vector<std::string> kernels;
  for (const Json& kernel : made.at("kernels")) kernels.push_back(kernel.at("config").at("kernel"));
  CHECK(std::ranges::count(kernels, "append") == 1);
  CHECK(std::ranges::count(kernels, "merge") == 1);
  CHECK(std::ranges::count(kernels, "forward_sm80") >= 2);
  CHECK(made.at("variants") == Json::array({"varlen"}));
}

TEST_CASE(
    "cli pages: bench takes caches, has a standard list of them, and says which flags exclude each other") {
  const Command fa2;
  const std::string help = fa2.run("bench --help").out;
  for (const std::string word :
       {"--decode", "--seqlen-q", "--page-size", "--heads-kv", "fa2 bench --decode\n"})
    CHECK(help.find(word) != std::string::npos);
  const auto refuses = [&](const std::string& words, const std::string& text) {
    expect_error(fa2, "bench " + words, 2, text);
  };
  refuses("--page-size 16", "--page-size requires --seqlen-q");
  refuses("--seqlen-q 1", "--seqlen-q requires --lengths");
  refuses("--lengths equal:8 --lengths-k equal:9 --seqlen-q 1", "--lengths-k excludes --seqlen-q");
  refuses("--lengths equal:8 --seqlen-q 1 --backward", "--seqlen-q excludes --backward");
  refuses("--decode --backward", "--decode excludes --backward");
  refuses("--decode --seqlen 512", "--seqlen");
  refuses("--lengths 1,2 --batch 3 --seqlen-q 1", "2 lengths, must be 3");
  refuses("--lengths equal:8 --seqlen-q 1 --hidden 512 --head-dim 128 --heads-kv 3", "heads_kv = 3");
  CHECK(fa2.run("bench --decode").says("no GPU was found"));
  CHECK(fa2.run("bench --lengths lognormal:4096 --batch 64 --seqlen-q 1 --page-size 16")
            .says("no GPU was found"));
}

#else
TEST_CASE("cli pages") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif
