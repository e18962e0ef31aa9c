// Opening libraries at run time, tested with libraries of every system.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/shared_library.h>

#include <string>
#include <utility>

namespace {

std::string failure(const std::vector<std::string>& candidates) {
  try {
    fa2::SharedLibrary::open_first(candidates, "a library for testing", "Install it.");
  } catch (const fa2::Unavailable& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("the first candidate that loads is opened") {
  const auto library =
      fa2::SharedLibrary::open_first({"libfa2-missing.so.1", "libm.so.6", "libc.so.6"}, "libm", "");
  CHECK(library.path().front() == '/');
  CHECK(library.path().find("libm.so.6") != std::string::npos);

  void* symbol = library.find("floor");
  REQUIRE(symbol != nullptr);
  const auto floor = reinterpret_cast<double (*)(double)>(symbol);
  CHECK(floor(2.5) == 2.0);
  CHECK(library.find("fa2_no_such_symbol") == nullptr);
}

TEST_CASE("a moved library stays open") {
  auto opened = fa2::SharedLibrary::open_first({"libm.so.6"}, "libm", "");
  const fa2::SharedLibrary library = std::move(opened);
  CHECK(library.find("floor") != nullptr);
  CHECK_FALSE(library.path().empty());
}

TEST_CASE("the error names every candidate, the loader's reason and what to do") {
  const std::string text = failure({"libfa2-missing.so.1", "/nonexistent/libfa2.so", "/etc/hostname"});
  CAPTURE(text);
  CHECK(text.find("a library for testing could not be opened") == 0);
  CHECK(text.find("libfa2-missing.so.1: cannot open shared object file") != std::string::npos);
  CHECK(text.find("/nonexistent/libfa2.so: cannot open shared object file") != std::string::npos);
  CHECK(text.find("\n  /etc/hostname: ") != std::string::npos);
  CHECK(text.find("Install it.") != std::string::npos);
}
