// CUDA graphs under capture.
#pragma once

#include <fa2/types.h>

#include <memory>

struct CUgraph_st;

namespace fa2 {

/// `CUgraph` and `cudaGraph_t`.
using Graph = CUgraph_st*;

/// Returns the graph that captures `stream`, a stream of the current device; null if none does. The capturing
/// code owns it.
Graph capturing_graph(Stream stream);

/// Keeps `object` until `graph`, its clones and their executables are destroyed and their launches have
/// ended. Any thread may then release it, so its deleter must not call CUDA, wait or throw.
void keep_with(Graph graph, std::shared_ptr<const void> object);

}  // namespace fa2
