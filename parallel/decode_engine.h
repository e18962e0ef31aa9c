// Attention of few queries over keys that are sharded: queries go to all keys, and the parts of their outputs come back in float32.
#pragma once

#include <fa2/communicator.h>
#include <fa2/context.h>
#include <fa2/merge.h>
#include <operation/operands/operands.h>
#include <parallel/message_carrier.h>
#include <parallel/tensor_copy.h>
#include <planning/plan.h>
#include <runtime/device_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace fa2 {

/// Returns the attention of a rank: all query heads over its own keys, with O in float32. Sinks join on rank 0 alone.
AttentionProblem decode_problem(const AttentionProblem& problem, int rank);

/// One rank's part. Buffers have the heads of rank 0 first, (heads, entries, rows, columns), so that those of a rank are one message. One run at
/// a time.
class DecodeEngine {
 public:
  /// `problem`: the caller's, valid and normalized; ranks divide its heads_q. `kernel` loads the kernel of copies and merges.
  /// `carrier` must outlive the engine.
  DecodeEngine(const AttentionProblem& problem, MessageCarrier& carrier, AttentionPlan plan,
               const LoadRowKernel& kernel, RowAlignment alignment);

  std::size_t workspace_bytes() const { return layout_.bytes; }
  const AttentionPlan& plan() const { return plan_; }

  /// Returns the messages of a run in `workspace`, exchange by exchange.
  MessageLists messages(std::byte* workspace);

  /// Returns the rank's Q, O and LSE. `args`: as ContextParallelDecodePlan::run() takes them.
  std::vector<Operand> own_operands(const AttentionArgs& args) const;
  /// Returns the arguments of plan().
  AttentionArgs local_args(const AttentionArgs& args, std::byte* workspace) const;

  void run(const AttentionArgs& args, std::byte* workspace, Stream stream);

 private:
  /// Where buffers begin in the workspace; bytes.
  struct Layout {
    std::size_t q = 0, out = 0, lse = 0, parts = 0, lse_parts = 0, bytes = 0;
  };

  Layout layout() const;
  /// Returns the elements of one rank's heads in a buffer of `dim` columns.
  std::int64_t rank_elements(std::int64_t dim) const;
  TensorStrides strides(std::int64_t dim) const;
  /// Calls message(to, from) for each number of ranks between both and this rank, from `first` on, so that all ranks send and receive.
  template <class Message>
  void for_each_distance(int first, const Message& message) const;
  std::byte* queries_of(int rank, std::byte* workspace) const;
  const std::vector<Transfer>& query_transfers(std::byte* workspace);
  const std::vector<Transfer>& part_transfers(std::byte* workspace);
  void merge(const AttentionArgs& args, std::byte* workspace, Stream stream);

  AttentionProblem problem_;
  MessageCarrier& carrier_;
  AttentionPlan plan_;
  std::int64_t entries_, rows_, heads_;  ///< heads: of one rank
  TensorCopy copy_;
  MergeProblem merge_problem_;
  std::shared_ptr<const Plan> merge_;
  Layout layout_;
  DeviceBuffer zero_;  ///< for copies
  std::vector<Transfer> transfers_;
};

}  // namespace fa2
