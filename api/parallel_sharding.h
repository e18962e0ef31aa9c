// Which scheme shares the work of a request.
#pragma once

#include <api/parallel_request.h>
#include <parallel/shard_engine.h>

#include <functional>
#include <memory>

namespace fa2 {

/// One rank's part.
struct Sharding {
  ContextParallelExplanation explanation;  ///< without workspace and kernels
  std::function<std::unique_ptr<ShardEngine>(MessageCarrier&, const PlanMaker&)> make_engine;
};

/// Adds to `found` why there is none. Every rank chooses the same scheme.
Sharding sharding_of(const ParallelRequest& request, RequestCheck& found);

}  // namespace fa2
