// Calls whose tokens are sharded over ranks that are threads.
#pragma once

#include <fa2/backward.h>
#include <fa2/context_parallel.h>
#include <parallel/thread_group.h>
#include <reference/gradients.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu_backward.h"

namespace fa2::test {

/// A call of all tokens, and how ranks share it.
struct ShardedCase {
  std::string name;
  AttentionProblem problem;
  std::vector<std::int64_t> cu_seqlens = {};  ///< of documents
  reference::ScoreFunctions functions = {};

  std::int64_t tokens() const { return problem.varlen ? problem.total_q : problem.seqlen_q; }
};

/// Returns options for ranks on the device under test.
ThreadGroupOptions rank_threads(bool late, std::uint64_t seed);

/// Returns problems in which positions, lengths, heads or the number of keys matter.
std::vector<ShardedCase> sharded_cases(std::int64_t tokens, std::int64_t batch);

/// Returns the case with documents of these lengths, packed.
ShardedCase with_documents(ShardedCase of, const std::vector<std::int64_t>& lengths);

/// Returns the backward of all tokens on one device; the caller uploads it.
GuardedBackward whole_call(const ShardedCase& of);

/// Returns the rows of a tensor that slices have.
reference::Tensor rows_of(const reference::Tensor& whole, const std::vector<Slice>& slices);

/// A tensor in memory of its own, with guards.
struct PlacedTensor {
  Layout layout;
  DeviceBuffer buffer;
  DType dtype;

  PlacedTensor(reference::Tensor tensor, DType type, MakeLayout make);
  void* data() const { return element(buffer, layout.first); }
  reference::Tensor read() const;
};

/// The memory of one rank's tensors, with guards. Made on the rank's device. Without the gradient of LSE where all of it is 0.
class ShardCall {
 public:
  ShardCall(const GuardedBackward& whole, const std::vector<Slice>& slices, MakeLayout layout);

  AttentionArgs forward() const;
  BackwardArgs backward(const Gradients& gradients) const;

  reference::Tensor out() const { return out_.read(); }
  reference::Tensor dq() const { return dq_.read(); }
  reference::Tensor dk() const { return dk_.read(); }
  reference::Tensor dv() const { return dv_.read(); }
  std::vector<float> lse() const { return downloaded<float>(lse_); }
  std::vector<float> d_sinks() const { return downloaded<float>(d_sinks_); }

 private:
  const GuardedBackward& whole_;
  PlacedTensor q_, k_, v_, out_, d_out_, dq_, dk_, dv_;
  DeviceBuffer lse_, d_sinks_;
  std::optional<DeviceBuffer> d_lse_;  ///< absent where it is 0
};

}  // namespace fa2::test
