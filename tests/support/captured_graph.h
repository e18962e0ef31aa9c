// A CUDA graph of what a stream is given.
#pragma once

#include <fa2/types.h>

struct CUgraph_st;
struct CUgraphExec_st;

namespace fa2::test {

/// Captures between begin() and end(), in that mode in which calls that wait or allocate fail on every thread; then
/// launches, again and again. Destroyed without waiting for its launches.
class CapturedGraph {
 public:
  explicit CapturedGraph(Stream stream) : stream_(stream) {}
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  void begin();
  void end();
  void launch() const;
  /// Destroys what was captured; what is launched stays.
  void destroy_capture();

 private:
  Stream stream_;
  bool capturing_ = false;
  CUgraph_st* graph_ = nullptr;
  CUgraphExec_st* executable_ = nullptr;
};

}  // namespace fa2::test
