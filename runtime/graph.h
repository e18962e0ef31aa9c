// CUDA graphs under capture.
#pragma once

#include <fa2/types.h>

#include <cstdint>
#include <memory>

struct CUgraph_st;

namespace fa2 {

/// `CUgraph` and `cudaGraph_t`.
using Graph = CUgraph_st*;

/// A capture that has begun. The capturing code owns the graph.
struct Capture {
  Graph graph = nullptr;     ///< null: there is none
  std::uint64_t number = 0;  ///< no other capture of the process has it
};

/// Returns the capture of `stream`, a stream of the current device.
Capture capture_of(Stream stream);

/// Keeps `object` until `graph`, its clones and their executables are destroyed and their launches have
/// ended. Any thread may then release it, so its deleter must not call CUDA, wait or throw.
void keep_with(Graph graph, std::shared_ptr<const void> object);

}  // namespace fa2
