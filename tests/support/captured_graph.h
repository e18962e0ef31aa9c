// A CUDA graph, captured from a stream.
#pragma once

#include <fa2/types.h>

struct CUgraph_st;
struct CUgraphExec_st;

namespace fa2::test {

/// Captures between begin() and end(), in the mode in which calls that wait or allocate fail on every thread.
/// May be launched many times. The destructor does not wait for launches.
class CapturedGraph {
 public:
  explicit CapturedGraph(Stream stream) : stream_(stream) {}
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  void begin();
  void end();
  void launch() const;
  /// Destroys the captured graph; its executable stays.
  void destroy_capture();

 private:
  Stream stream_;
  bool capturing_ = false;
  CUgraph_st* graph_ = nullptr;
  CUgraphExec_st* executable_ = nullptr;
};

}  // namespace fa2::test
