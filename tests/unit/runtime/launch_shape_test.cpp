// Which launches consist of whole clusters.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/kernel.h>

#include <string>

using namespace fa2;

namespace {

/// Returns why the launch is rejected; empty if it is not.
std::string refusal_of(const LaunchShape& shape) {
  try {
    require_whole_clusters(shape);
    return {};
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::internal);
    return error.what();
  }
}

}  // namespace

TEST_CASE("launch shape: a grid must be whole clusters") {
  CHECK(LaunchShape{7}.cluster == 1);
  for (std::uint32_t cluster = 1; cluster <= 8; ++cluster) {
    CHECK(refusal_of({cluster, cluster}) == "");
    CHECK(refusal_of({5 * cluster, cluster}) == "");
    CHECK(refusal_of({5 * cluster + 1, cluster}).empty() == (cluster == 1));
  }
  CHECK(refusal_of({6, 4}) == "LaunchShape::grid = 6, must be a multiple of LaunchShape::cluster, 4");
}

TEST_CASE("launch shape: a cluster larger than every GPU supports") {
  CHECK(refusal_of({16, 16}).find("cluster = 16, must be 1 to 8") != std::string::npos);
  CHECK(refusal_of({16, 0}).find("cluster = 0, must be 1 to 8") != std::string::npos);
}
