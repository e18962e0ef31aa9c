// Calls the driver's graph functions that only tests need.
#include "captured_graph.h"

#include <runtime/driver.h>

#include <utility>

namespace fa2::test {
namespace {

template <class Function>
Function loaded(const char* name, int version) {
  return reinterpret_cast<Function>(driver_function(name, version));
}

CUresult end_capture(Stream stream, CUgraph* graph) {
  return loaded<PFN_cuStreamEndCapture_v10000>("cuStreamEndCapture", 10000)(stream, graph);
}

}  // namespace

CapturedGraph::~CapturedGraph() {
  if (capturing_) end_capture(stream_, &graph_);  // a test failed during the capture
  if (executable_ != nullptr) loaded<PFN_cuGraphExecDestroy_v10000>("cuGraphExecDestroy", 10000)(executable_);
  destroy_capture();
}

void CapturedGraph::begin() {
  const auto begin = loaded<PFN_cuStreamBeginCapture_v10010>("cuStreamBeginCapture", 10010);
  fa2::check(begin(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
  capturing_ = true;
}

void CapturedGraph::end() {
  capturing_ = false;
  fa2::check(end_capture(stream_, &graph_), "cuStreamEndCapture");
  const auto instantiate =
      loaded<PFN_cuGraphInstantiateWithFlags_v11040>("cuGraphInstantiateWithFlags", 11040);
  fa2::check(instantiate(&executable_, graph_, 0), "cuGraphInstantiateWithFlags");
}

void CapturedGraph::launch() const {
  const auto launch = loaded<PFN_cuGraphLaunch_v10000>("cuGraphLaunch", 10000);
  fa2::check(launch(executable_, stream_), "cuGraphLaunch");
}

void CapturedGraph::destroy_capture() {
  CUgraph const graph = std::exchange(graph_, nullptr);
  if (graph != nullptr) loaded<PFN_cuGraphDestroy_v10000>("cuGraphDestroy", 10000)(graph);
}

}  // namespace fa2::test
