// Attention over keys that arrive rank by rank: the run of KeyStages.
#pragma once

#include <fa2/backward.h>
#include <fa2/communicator.h>
#include <fa2/merge.h>
#include <parallel/device_tables.h>
#include <parallel/key_stages.h>
#include <parallel/own_rows.h>
#include <parallel/rank_work.h>
#include <parallel/sequence_tables.h>
#include <parallel/shard_engine.h>
#include <parallel/stages.h>
#include <parallel/stream_pair.h>
#include <planning/sum_parts.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace fa2 {

struct StagedWork {
  AttentionProblem shard;  ///< of the rank's tensors
  KeyStages keys;
  std::vector<RankWork> works;  ///< per stage
  Gradients gradients;
  RowAlignment alignment = RowAlignment::bytes16;
};

/// Each stage writes a float32 part of O and its LSE. The running part covers the keys so far: each stage's part is merged into it, and the last merge
/// rounds O. Parts of dQ are added likewise. dK and dV that come home are added to those of own keys.
class StagedEngine final : public ShardEngine {
 public:
  /// Loads all kernels. `carrier` must outlive the engine.
  StagedEngine(StagedWork work, MessageCarrier& carrier, const PlanMaker& make);

  std::size_t workspace_bytes() const override { return layout_.bytes; }
  MessageLists messages(Pass pass, std::byte* workspace) override;
  void run(const AttentionArgs& args, std::byte* workspace, Stream stream) override;
  void run_backward(const BackwardArgs& args, std::byte* workspace, Stream stream) override;
  const AttentionPlan* forward() const override;
  const BackwardPlan* backward() const override;

 private:
  /// A sum of gradients.
  struct Sum {
    std::shared_ptr<const Plan> plan = nullptr;
    SumProblem problem = {};
    std::size_t rows = 0;  ///< table
  };
  /// A merge of O.
  struct Merge {
    std::shared_ptr<const Plan> plan = nullptr;
    MergeProblem problem = {};
  };
  /// A stage's kernels.
  struct StagePlans {
    std::optional<AttentionPlan> forward = std::nullopt;
    std::optional<BackwardPlan> backward = std::nullopt;
    SequenceTables sequences = {};
    int number = 0;        ///< among the stages that have keys
    bool is_last = false;  ///< of these
    Merge merge = {};
    Sum queries = {};  ///< adds dQ
    Sum keys = {};     ///< adds dK and dV that have come home
  };
  /// Where memory begins in the workspace; bytes.
  struct Layout {
    std::size_t outbox = 0;
    SlotOffsets keys{};
    std::size_t out[2]{}, lse[3]{};  ///< of forwards: the running part and that of a stage; LSE runs in two
    std::size_t dq[2]{}, own_gradients = 0;  ///< of backwards: likewise, and float32 dK and dV of own keys
    SlotOffsets gradients{}, arrivals{};
    std::size_t bytes = 0;
  };
  class Run;

  const KeyStage& stage(int number) const { return of_.keys.stages[number]; }
  bool has_keys(int number) const { return stage(number).rows > 0; }
  std::int64_t entries() const { return of_.shard.batch; }
  std::int64_t tokens() const { return of_.shard.seqlen_q; }

  void add_stage(int number, const PlanMaker& make);
  Merge merge_after(const StagePlans& plans, const PlanMaker& make) const;
  Sum query_sum(const StagePlans& plans, const PlanMaker& make);
  Sum key_sum(int number, const PlanMaker& make);
  std::vector<std::int32_t> key_table(int number, bool is_last) const;
  Layout layout() const;

  StagedWork of_;
  MessageCarrier& carrier_;
  DeviceTables tables_;
  OwnRows own_;
  std::vector<StagePlans> plans_;
  int own_stages_ = 0;  ///< the first ones
  Layout layout_;
  std::vector<Stage> forward_stages_, backward_stages_;
  StreamPair streams_;
  std::vector<Transfer> transfers_;  ///< of the current exchange
};

}  // namespace fa2
