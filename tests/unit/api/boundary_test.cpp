// Every exception that leaves the library is an fa2::Error, whatever was thrown inside.
#include <api/boundary.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

using namespace fa2;

namespace {

/// Returns the code and the message of the Error that leaves.
template <class Exception>
std::pair<ErrorCode, std::string> code_of(const Exception& exception) {
  try {
    try {
      throw exception;
    } catch (...) {
      rethrow_as_error();
    }
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

AttentionProblem example() {
  AttentionProblem problem;
  problem.head_dim = 16;
  problem.seqlen_q = problem.seqlen_k = 16;
  return problem;
}

}  // namespace

TEST_CASE("boundary: exceptions of the standard library become errors with a code") {
  CHECK(code_of(std::bad_alloc()).first == ErrorCode::internal);
  CHECK(code_of(std::bad_alloc()).second == "out of host memory");
  CHECK(code_of(std::length_error("too long")).first == ErrorCode::internal);
  CHECK(code_of(std::length_error("too long")).second.find("too long") != std::string::npos);
  CHECK(code_of(7).first == ErrorCode::internal);
  const std::filesystem::filesystem_error refused("cannot make", "/x",
                                                  std::make_error_code(std::errc::permission_denied));
  CHECK(code_of(refused).first == ErrorCode::unavailable);
  CHECK(code_of(refused).second.find("/x") != std::string::npos);
  CHECK(code_of(InvalidRequest({{"a", "b", "c"}})).first == ErrorCode::invalid_request);
}

TEST_CASE("boundary: a temporary directory that does not exist gives an Error") {
  const test::TemporaryDirectory dir;
  const test::ScopedEnvironment nowhere("TMPDIR", "/nonexistent");
  ContextOptions options;
  options.cache_dir = (dir / "cache").string();
  options.read_only_caches.emplace();
  options.tune = TuneMode::off;
  Context context(options);
  CHECK_THROWS_WITH_AS(context.explain(example(), "interpreter"), doctest::Contains("temp"), Error);
  PrecompileOptions one;
  one.scope = PrecompileScope::given_sizes;
  const auto rows = context.precompile({example()}, {"interpreter"}, one);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].error.find("temp") != std::string::npos);
}

TEST_CASE("boundary: if FA2_KEEP_SOURCE cannot be created, the error names it") {
  const test::TemporaryDirectory dir;
  ContextOptions options;
  options.cache_dir = (dir / "cache").string();
  options.read_only_caches.emplace();
  options.tune = TuneMode::off;
  const test::ScopedEnvironment keep("FA2_KEEP_SOURCE", "/proc/x");
  Context context(options);
  CHECK_THROWS_WITH_AS(context.explain(example(), "interpreter"), doctest::Contains("FA2_KEEP_SOURCE"),
                       Error);
}
