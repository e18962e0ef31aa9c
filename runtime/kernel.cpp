// Checks the shape of a launch.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/kernel.h>

namespace fa2 {
namespace {

constexpr std::uint32_t kMostBlocksOfCluster = 8;

}  // namespace

void require_whole_clusters(const LaunchShape& shape) {
  if (shape.cluster == 0 || shape.cluster > kMostBlocksOfCluster) {
    throw Error(ErrorCode::internal, fmt::format("LaunchShape::cluster = {}, must be 1 to {}", shape.cluster,
                                                 kMostBlocksOfCluster));
  }
  if (shape.grid % shape.cluster != 0) {
    throw Error(ErrorCode::internal,
                fmt::format("LaunchShape::grid = {}, must be a multiple of LaunchShape::cluster, {}",
                            shape.grid, shape.cluster));
  }
}

}  // namespace fa2
