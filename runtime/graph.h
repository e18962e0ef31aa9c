// CUDA graphs that streams capture.
#pragma once

#include <fa2/types.h>

#include <memory>

struct CUgraph_st;

namespace fa2 {

/// `CUgraph` and `cudaGraph_t`.
using Graph = CUgraph_st*;

/// The graph that captures what `stream` of the current device is given; null if none does. It belongs to who
/// captures.
Graph capturing_graph(Stream stream);

/// `object` is kept as long as `graph`, its clones and what was instantiated from any of them are there, and
/// until their launches have ended. Then it is released, by any thread: its deleter must not call CUDA, wait or
/// throw.
void keep_with(Graph graph, std::shared_ptr<const void> object);

}  // namespace fa2
