// One message lists everything that is wrong with a command.
#include <doctest/doctest.h>
#include <tests/support/command.h>
#include <tools/mistakes.h>

#include <string>
#include <vector>

#ifdef FA2_COMMAND

namespace {

using namespace fa2::test;

void check_lists(const Command& fa2, const std::string& arguments, int status,
                 const std::vector<std::string>& mistakes) {
  const Result result = fa2.run(arguments);
  CAPTURE(arguments);
  CAPTURE(result.err);
  CHECK(result.status == status);
  CHECK(result.says(std::to_string(mistakes.size()) + " mistakes:"));
  for (const std::string& mistake : mistakes) {
    CAPTURE(mistake);
    CHECK(result.says(mistake));
  }
}

}  // namespace

TEST_CASE("cli mistakes: one message lists flags that are unknown, missing, wrong or exclude each other") {
  const Command fa2;
  check_lists(fa2, "run --q q.npy --k k.npy --layout sbhd --dtype f8 --causal --mask none --seed 1 --scael 1",
              2,
              {"--v is required", "--layout: sbhd not in", "--dtype: f8 not in", "--causal excludes --mask",
               "--seed requires --dropout", "not expected: 1 --scael", "--out is required"});
  check_lists(fa2, "precompile --arch k80 --head-dim 7 --dtype f8 --jobs -1 --causal maybe", 2,
              {"\"k80\" is not known", "head_dim = 7, must", "--dtype: f8 not in",
               "--jobs: Value -1 not in range", "--causal: maybe not in"});
}

TEST_CASE("cli mistakes: fa2 precompile lists every value that no kernel supports") {
  const Command fa2;
  check_lists(
      fa2, "precompile --arch v100,sm_80,k80 --head-dim 7,64,600 --dry-run", 2,
      {"\"v100\" is not known", "\"k80\" is not known", "head_dim = 7, must be a multiple of 8 in 8..576\n"});
  const Result dims = fa2.run("precompile --arch sm_80 --head-dim 7,64,600 --dry-run");
  CHECK(dims.says("head_dim = 7, must"));
  CHECK(dims.says("head_dim = 600, must"));
  check_lists(fa2, "precompile --arch v100 --head-dim 64 --sinks --hf /nowhere --dry-run", 2,
              {"--hf excludes --head-dim", "--hf excludes --sinks", "/nowhere", "\"v100\" is not known"});
}

TEST_CASE("cli mistakes: fa2 run lists every flag, then every file that it cannot read") {
  const Command fa2;
  check_lists(fa2, "run --q q --k k --v v --backward --d-out d --lse l --device gpu", 2,
              {"One of --dq, --dk and --dv is required", "--lse requires --out", "\"gpu\" is none of auto"});
  check_lists(fa2, "run --q q --k k --v v --out v --lse q", 2,
              {"--out = \"v\", must not", "--lse = \"q\", must not"});
  check_lists(fa2,
              "run --q no/q --k no/k --v no/v --seqused-k no/u --cu-seqlens-q no/c --alibi no/a --out no/o "
              "--lse no/l",
              1,
              {"no/q: No such", "no/k: No such", "no/v: No such", "no/u: No such", "no/c: No such",
               "no/a: No such", "no/o", "no/l"});
  check_lists(fa2, "run --backward --q no/q --k no/k --v no/v --d-out no/do --dq no/dq --dk no/dk", 1,
              {"no/q: No such", "no/k: No such", "no/v: No such", "no/do: No such", "no/dq", "no/dk"});
}

#else
TEST_CASE("cli mistakes") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif

TEST_CASE("mistakes: one is thrown unchanged, several as one list without repetitions") {
  fa2::tools::Mistakes mistakes;
  CHECK_NOTHROW(mistakes.require_none());
  mistakes.attempt([] { throw fa2::CacheError("a"); });
  CHECK_THROWS_WITH_AS(mistakes.require_none(), "a", fa2::CacheError);
  mistakes.attempt([] { throw fa2::Unavailable("b"); });
  mistakes.attempt([] { throw fa2::CacheError("a"); });
  CHECK_THROWS_WITH_AS(mistakes.require_none(), "2 mistakes:\na\nb", fa2::Error);
  mistakes.attempt([] { throw CLI::ValidationError("c"); });
  CHECK_THROWS_WITH_AS(mistakes.require_none(), "3 mistakes:\na\nb\nc", CLI::ValidationError);
}
