// Varlen in the fa2 command.
#include <doctest/doctest.h>
#include <tests/support/command.h>
#include <tests/support/sanitizers.h>
#include <tools/npy.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#ifdef FA2_COMMAND

namespace {

using namespace fa2::test;
using fa2::tools::read_npy;
using fa2::tools::write_npy;

using Shape = std::vector<std::int64_t>;

void write_table(const Command& fa2, const std::string& name, const std::vector<std::int32_t>& table) {
  write_npy(fa2.file(name), {{static_cast<std::int64_t>(table.size())}, table});
}

/// Returns "run ..." for three packed sequences of 4, 0 and 5 queries and 3, 2 and 8 keys, (total, heads,
/// dim).
std::string run_of(const Command& fa2) {
  fa2.write("q", {11, 4, 16});
  for (const std::string name : {"k", "v"}) fa2.write(name, {13, 2, 16});
  write_table(fa2, "cq", {1, 5, 5, 10});
  write_table(fa2, "ck", {0, 3, 5, 13});
  return "run --device interpreter" + fa2.option("--q", "q") + fa2.option("--k", "k") +
         fa2.option("--v", "v") + fa2.option("--out", "o.npy");
}

std::string tables_of(const Command& fa2) {
  return fa2.option("--cu-seqlens-q", "cq") + fa2.option("--cu-seqlens-k", "ck");
}

const std::vector<float>& floats(const fa2::tools::NpyArray& array) {
  return std::get<std::vector<float>>(array.values);
}

}  // namespace

TEST_CASE("cli varlen: run computes packed sequences like the reference") {
  if (cannot_interpret()) return;
  const Command fa2;
  const std::string run = run_of(fa2) + tables_of(fa2) + " --check --json" + fa2.option("--lse", "lse.npy");
  const Result result = fa2.run(run + " --causal");
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(result.json().at("check").at("ok") == true);
  const Json problem = result.json().at("explanation").at("problem");
  CHECK(problem.at("varlen") == true);
  CHECK(problem.at("batch") == 3);
  CHECK(problem.at("seqlen_q") == 5);
  CHECK(problem.at("seqlen_k") == 8);
  CHECK(problem.at("total_q") == 11);
  CHECK(problem.at("total_k") == 13);

  const auto o = read_npy(fa2.file("o.npy"), {3, 3});
  CHECK(o.shape == Shape{11, 4, 16});
  const auto lse = read_npy(fa2.file("lse.npy"), {2, 2});
  CHECK(lse.shape == Shape{4, 11});
  for (std::size_t row = 0; row < 11; ++row) {
    CAPTURE(row);
    CHECK(std::isnan(floats(o)[row * 64]) == (row == 0 || row == 10));  // rows of no sequence
    CHECK(std::isnan(floats(lse)[row]) == (row == 0 || row == 10));
  }
}

TEST_CASE("cli varlen: run takes heads first, seqused, and batched keys") {
  if (cannot_interpret()) return;
  const Command fa2;
  std::string run = run_of(fa2) + tables_of(fa2) + " --check --json";
  write_table(fa2, "uq", {4, 0, 2});
  write_table(fa2, "uk", {1, 0, 8});
  const std::string used = fa2.option("--seqused-q", "uq") + fa2.option("--seqused-k", "uk");
  CHECK(fa2.run(run + used + " --window-left 2").status == 0);

  fa2.write("q", {4, 11, 16});
  for (const std::string name : {"k", "v"}) fa2.write(name, {2, 13, 16});
  CHECK(fa2.run(run + " --layout bhsd").status == 0);
  CHECK(read_npy(fa2.file("o.npy"), {3, 3}).shape == Shape{4, 11, 16});

  run =
      run_of(fa2) + fa2.option("--cu-seqlens-q", "cq") + fa2.option("--seqused-k", "uk") + " --check --json";
  for (const std::string name : {"k", "v"}) fa2.write(name, {3, 9, 2, 16});
  const Result batched_keys = fa2.run(run);
  CAPTURE(batched_keys.err);
  REQUIRE(batched_keys.status == 0);
  CHECK(batched_keys.json().at("explanation").at("problem").at("total_k") == 0);
}

TEST_CASE("cli varlen: run says what is wrong with tables and their tensors") {
  const Command fa2;
  const std::string run = run_of(fa2);
  const auto says = [&](const std::string& words, const std::string& text) {
    expect_error(fa2, run + words, 1, text);
  };
  says("", "q: shape = (11, 4, 16) of rank 3, must have rank 4");
  says(fa2.option("--cu-seqlens-q", "none"), fa2.file("none").string() + ": No such file");
  says(fa2.option("--cu-seqlens-q", "cq"), "k: shape = (13, 2, 16) of rank 3, must have rank 4");
  says(fa2.option("--cu-seqlens-q", "q"),
       "q: dtype = '<f4', must be int32 ('<i4'): save array.astype(numpy.int32)");
  write_table(fa2, "empty", {});
  says(fa2.option("--cu-seqlens-q", "empty"), "empty: shape = (0,), must be (batch + 1,)");
  write_table(fa2, "long", {0, 1, 2, 3, 4});
  says(fa2.option("--cu-seqlens-q", "cq") + fa2.option("--cu-seqlens-k", "long"),
       "cu_seqlens_k's sequences = 4, must be that of cu_seqlens_q, 3");
  says(tables_of(fa2) + fa2.option("--seqused-k", "long"),
       "seqused_k's sequences = 5, must be that of cu_seqlens_q, 3");
  fa2.write("k", {2, 9, 2, 16});
  fa2.write("v", {3, 9, 2, 16});
  says(fa2.option("--cu-seqlens-q", "cq"), "k's batch = 2, must be that of cu_seqlens_q, 3");
}

TEST_CASE("cli varlen: run checks the contents of tables before it looks for a kernel") {
  const Command fa2;
  const std::string run = run_of(fa2);
  write_table(fa2, "uq", {4, 0, 6});
  write_table(fa2, "wrong", {0, 3, 2, 14});
  const auto says = [&](const std::string& words, const std::string& text) {
    expect_error(fa2, run + words, 1, text, "FA2_JIT=off");
  };
  says(tables_of(fa2), "FA2_JIT");  // valid ones
  const std::string wrong_k = fa2.option("--cu-seqlens-q", "cq") + fa2.option("--cu-seqlens-k", "wrong") +
                              fa2.option("--seqused-q", "uq");
  says(wrong_k, "seqused_q[2] = 6, must be in 0..5, the length of its sequence");
  says(wrong_k, "cu_seqlens_k[2] = 2, must be at least cu_seqlens_k[1] = 3; 1 more is wrong");
  fa2.write("q", {0, 4, 16});
  says(tables_of(fa2), "cu_seqlens_q[0] = 1, must be at most total_q = 0; 3 more are wrong");
}

TEST_CASE("cli varlen: bench takes lengths, and says what is wrong with them") {
  const Command fa2;
  const std::string help = fa2.run("bench --help").out;
  for (const std::string word : {"--lengths", "--lengths-k", "--batch", "lognormal:512 --batch 64"})
    CHECK(help.find(word) != std::string::npos);
  const auto refuses = [&](const std::string& words, const std::string& text) {
    expect_error(fa2, "bench " + words, 2, text);
  };
  refuses("--lengths normal:4", "\"normal:4\", must be one of equal:N");
  refuses("--lengths 1,2 --batch 3", "2 lengths, must be 3");
  refuses("--lengths equal:8 --lengths-k 1,2 --batch 3", "--lengths-k: 2 lengths, must be 3");
  refuses("--lengths equal:8 --seqlen 512", "--seqlen excludes --lengths");
  refuses("--batch 3", "--batch requires --lengths");
  CHECK(fa2.run("bench --lengths lognormal:512 --batch 64").says("no GPU was found"));
}

#else
TEST_CASE("cli varlen") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif
