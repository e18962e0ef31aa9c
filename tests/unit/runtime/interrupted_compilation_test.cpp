// A compilation that a signal ends decides nothing: neither the cache nor the choice of a config remembers
// it.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <runtime/kernel_cache.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/fake_compiler.h>
#include <tests/support/temporary_directory.h>

#include <memory>
#include <string>

using namespace fa2;
using namespace fa2::test;
namespace fs = std::filesystem;

TEST_CASE("if Ctrl-C kills the compiler, the plan takes no other config, and the next call compiles again") {
  const TemporaryDirectory dir;
  const ScopedEnvironment compiler("FA2_CXX", (dir / "compiler").native());
  const std::string first = (dir / "first").native();
  for (const char* end :
       {"kill -INT $$", "echo 'c++: fatal error: Interrupt signal terminated program cc1plus'; exit 1"}) {
    CAPTURE(end);
    write_text(dir / "compiler", "#!/bin/sh\nif mkdir " + first + "; then " + end +
                                     "; fi\nfor output; do :; done; echo code >\"$output\"\n");
    fs::permissions(dir / "compiler", fs::perms(0700));
    fs::remove(first);
    ContextOptions options;
    options.cache_dir = (dir / "cache" / std::to_string(std::string(end).size())).native();
    options.read_only_caches.emplace();
    Context context(options);
    const AttentionProblem problem{.head_dim = 64, .seqlen_q = 100, .seqlen_k = 100};
    CHECK_THROWS_AS(context.explain(problem, "interpreter"), Interrupted);
    const Explanation made = context.explain(problem, "interpreter");
    CHECK(made.kernels[0].origin == KernelOrigin::compiled);
    CHECK(made.kernels[0].config_reason.find("instead of") == std::string::npos);
  }
}

TEST_CASE("a cache asks the compiler again after an interrupt") {
  const auto compiler = std::make_shared<FakeCompiler>();
  compiler->before = [] { throw Interrupted("killed by signal 2"); };
  KernelCache cache(compiler, {}, nullptr, JitMode::on);
  const KernelSource source = [] {
    KernelSource made;
    made.key = kKey;
    made.arch.name = "sm_80";
    return made;
  }();
  CHECK_THROWS_AS(cache.get(source), Interrupted);
  compiler->before = nullptr;
  CHECK(cache.get(source).origin == KernelOrigin::compiled);
  CHECK(compiler->compiled == 2);
}

TEST_CASE("an interrupt ends precompile(), however much is left to compile") {
  const TemporaryDirectory dir;
  write_text(dir / "compiler", "#!/bin/sh\nkill -INT $$\n");
  fs::permissions(dir / "compiler", fs::perms(0700));
  const ScopedEnvironment compiler("FA2_CXX", (dir / "compiler").native());
  ContextOptions options;
  options.cache_dir = (dir / "cache").native();
  options.read_only_caches.emplace();
  Context context(options);
  PrecompileOptions one;
  one.scope = PrecompileScope::given_sizes;
  CHECK_THROWS_AS(
      context.precompile({{.head_dim = 64, .seqlen_q = 100, .seqlen_k = 100}}, {"interpreter"}, one),
      Interrupted);
}
