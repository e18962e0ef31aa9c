// Attention that gathers keys by groups of heads: the run of a GatherPlan.
#pragma once

#include <fa2/backward.h>
#include <fa2/communicator.h>
#include <parallel/device_tables.h>
#include <parallel/gather_plan.h>
#include <parallel/key_value_rows.h>
#include <parallel/own_rows.h>
#include <parallel/rank_work.h>
#include <parallel/sequence_tables.h>
#include <parallel/shard_engine.h>
#include <parallel/stream_pair.h>
#include <planning/sum_parts.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace fa2 {

/// The work of one rank.
struct GatherWork {
  AttentionProblem shard;  ///< of the rank's tensors
  RankWork work;
  GatherPlan gather;
  Gradients gradients;
  RowAlignment alignment = RowAlignment::bytes16;
  /// Whether no rank needs another's keys. Then kernels read and write the rank's tensors, and there is one group and no exchange.
  bool is_local = false;
};

class GatherEngine final : public ShardEngine {
 public:
  /// Loads all kernels. `carrier` must outlive the engine.
  GatherEngine(GatherWork work, MessageCarrier& carrier, const PlanMaker& make);

  std::size_t workspace_bytes() const override { return layout_.bytes; }
  MessageLists messages(Pass pass, std::byte* workspace) override;
  void run(const AttentionArgs& args, std::byte* workspace, Stream stream) override;
  void run_backward(const BackwardArgs& args, std::byte* workspace, Stream stream) override;
  const AttentionPlan* forward() const override;
  const BackwardPlan* backward() const override;

 private:
  struct Group {
    HeadGroup part;
    AttentionProblem problem;
    std::optional<AttentionPlan> forward = std::nullopt;
    std::optional<BackwardPlan> backward = std::nullopt;
    OwnRows own = {};  ///< into a slot
    std::shared_ptr<const Plan> sum = nullptr;
    SumProblem sum_problem = {};

    std::int64_t row_elements() const { return key_value_elements(problem); }
    std::int64_t first_entry() const { return part.entries.begin; }
    std::int64_t first_query_head() const { return part.heads.begin * (problem.heads_q / problem.heads_kv); }
  };
  /// Memory in the workspace, for either pass.
  struct Layout {
    SlotOffsets keys{}, gradients{}, arrivals{};
    std::size_t bytes = 0;
  };

  void add_tables();
  Group group_of(const HeadGroup& part, const PlanMaker& make);
  void add_forward(Group& group, const PlanMaker& make) const;
  void add_backward(Group& group, const PlanMaker& make) const;
  Layout layout() const;

  class Run;

  const GatherPass& pass_of(Pass pass) const;
  const std::vector<Group>& groups_of(Pass pass) const;
  void list_transfers(Pass pass, const Stage& stage, std::byte* workspace);
  void copy_own(const Group& group, const AttentionArgs& args, std::byte* keys, Stream stream);
  void sum(int group, const BackwardArgs& args, std::byte* workspace, Stream stream);
  AttentionArgs forward_args(const Group& group, const AttentionArgs& args, std::byte* keys) const;
  BackwardArgs backward_args_of(const Group& group, const BackwardArgs& args, std::byte* keys,
                                std::byte* gradients) const;

  GatherWork of_;
  MessageCarrier& carrier_;
  DeviceTables tables_;
  SequenceTables sequences_;
  std::size_t sum_rows_ = 0;  ///< table
  std::int64_t parts_ = 1;    ///< of sums
  std::vector<Group> forward_, backward_;
  Layout layout_;
  StreamPair streams_;
  std::vector<Transfer> transfers_;  ///< of the current exchange
};

}  // namespace fa2
