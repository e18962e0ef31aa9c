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
    throw Error(ErrorCode::internal,
                fmt::format("a launch in clusters of {} blocks: every GPU with clusters runs 1 to {}",
                            shape.cluster, kMostBlocksOfCluster));
  }
  if (shape.grid % shape.cluster != 0) {
    throw Error(ErrorCode::internal,
                fmt::format("a launch of {} blocks in clusters of {}: the grid must be a multiple "
                            "of the cluster's size",
                            shape.grid, shape.cluster));
  }
}

}  // namespace fa2
