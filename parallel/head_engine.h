// Attention with all tokens of some heads on each rank: the exchanges of head_plan.h around kernels of one GPU.
#pragma once

#include <fa2/communicator.h>
#include <parallel/device_tables.h>
#include <parallel/element_sizes.h>
#include <parallel/head_plan.h>
#include <parallel/shard_engine.h>
#include <parallel/stages.h>
#include <parallel/stream_pair.h>
#include <parallel/tensor_copy.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace fa2 {

/// The work of one rank.
struct HeadWork {
  AttentionProblem problem;  ///< of all tokens, normalized
  std::vector<std::int64_t> cu_seqlens;
  std::vector<RowsOfSlices> held;          ///< per rank: its slices
  std::vector<std::vector<Slice>> shares;  ///< key/value heads: [group][rank]
  Gradients gradients;
  RowAlignment alignment = RowAlignment::bytes16;

  std::int64_t entries() const { return problem.varlen ? 1 : problem.batch; }
  std::int64_t tokens() const { return problem.varlen ? problem.total_q : problem.seqlen_q; }
  std::int64_t queries_per_kv() const { return problem.heads_q / problem.heads_kv; }
};

/// Returns the bytes that a forward sends from a rank to another.
std::int64_t bytes_between(const HeadWork& work, int from, int to);

class HeadEngine final : public ShardEngine {
 public:
  /// Loads all kernels. `carrier` must outlive the engine.
  HeadEngine(HeadWork work, MessageCarrier& carrier, const PlanMaker& make);

  std::size_t workspace_bytes() const override { return layout_.bytes; }
  MessageLists messages(Pass pass, std::byte* workspace) override;
  void run(const AttentionArgs& args, std::byte* workspace, Stream stream) override;
  void run_backward(const BackwardArgs& args, std::byte* workspace, Stream stream) override;
  const AttentionPlan* forward() const override { return &*groups_.front().forward; }
  const BackwardPlan* backward() const override;

 private:
  struct Group {
    std::vector<Slice> shares;  ///< key/value heads per rank
    Slice heads;                ///< the own ones
    std::int64_t all_heads;     ///< number of those of all ranks
    std::optional<AttentionPlan> forward = std::nullopt;
    std::optional<BackwardPlan> backward = std::nullopt;
  };
  /// What a forward or a backward exchanges.
  struct Messages {
    HeadRow in, out;
    std::size_t arrays = 1;  ///< float32 (entries, heads_q, tokens): LSE, and its gradient
  };
  /// Memory in the workspace. own_arrays: where those of own tokens begin; bytes.
  struct Layout {
    SlotOffsets sent{}, gathered{}, results{}, returned{}, arrays{};
    std::array<std::size_t, 2> own_arrays{};
    std::size_t bytes = 0;
  };
  class Run;

  void add_messages();
  void add_copies(const HeadRow& row, const PlanMaker& make);
  void add_group(const std::vector<Slice>& shares, const PlanMaker& make);
  Layout layout() const;
  /// Returns the bytes of an array of own tokens.
  std::size_t own_array_bytes() const {
    return static_cast<std::size_t>(of_.entries() * of_.problem.heads_q * own_tokens_ * kFloatBytes);
  }

  HeadWork of_;
  MessageCarrier& carrier_;
  std::int64_t own_tokens_;
  Messages forward_, backward_;
  std::vector<Group> groups_;
  std::map<std::pair<std::int64_t, std::int64_t>, TensorCopy> copies_;  ///< by heads and columns
  DeviceTables tables_;
  std::size_t zero_ = 0, cu_seqlens_ = 0;  ///< tables
  Layout layout_;
  std::vector<Stage> stages_;
  StreamPair streams_;
  std::vector<Transfer> transfers_;  ///< of the current exchange
};

}  // namespace fa2
