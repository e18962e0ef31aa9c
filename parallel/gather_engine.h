// Attention that gathers keys by groups of heads: the run of a GatherPlan.
#pragma once

#include <fa2/append.h>
#include <fa2/backward.h>
#include <fa2/communicator.h>
#include <parallel/device_tables.h>
#include <parallel/gather_plan.h>
#include <parallel/rank_work.h>
#include <parallel/stream_pair.h>
#include <planning/plan.h>
#include <planning/row_kernels.h>
#include <planning/sum_parts.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace fa2 {

/// Makes the plans and kernels of one rank.
struct PlanMaker {
  std::function<AttentionPlan(const AttentionProblem&)> forward;
  std::function<BackwardPlan(const AttentionProblem&)> backward;  ///< empty without gradients
  std::function<std::shared_ptr<const Kernel>(const RowKernel&)> append;
  std::function<std::shared_ptr<const Kernel>(const RowKernel&)> sum;
};

/// The work of one rank, for all groups.
struct GatherWork {
  AttentionProblem shard;  ///< of the rank's tensors
  RankWork work;
  GatherPlan gather;
  Gradients gradients;
  RowAlignment alignment = RowAlignment::bytes16;
  /// Whether no rank needs another's keys. Then kernels read and write the rank's tensors, and there is one group and no exchange.
  bool is_local = false;
};

/// One rank's kernels, tables and streams. One run at a time.
class GatherEngine {
 public:
  /// Loads all kernels. The device's context must be current, also at destruction. `communicator` must outlive the engine.
  GatherEngine(GatherWork work, Communicator& communicator, const PlanMaker& make);

  /// Returns the bytes that runs need: a multiple of kWorkspaceAlignment.
  std::size_t workspace_bytes() const { return layout_.bytes; }

  /// Enqueue a run. The arguments must be valid for GatherWork::shard. Later work on `stream` follows kernels and exchanges.
  void run(const AttentionArgs& args, std::byte* workspace, Stream stream);
  void run_backward(const BackwardArgs& args, std::byte* workspace, Stream stream);

  const GatherWork& of() const { return of_; }
  /// Return the plans of the first group; null if the rank has no queries or no gradients.
  const AttentionPlan* forward() const;
  const BackwardPlan* backward() const;

 private:
  /// A copy of own rows into a slot, as appends to an empty cache.
  struct OwnCopy {
    std::shared_ptr<const Plan> plan;
    AppendProblem problem;
    std::int64_t from = 0;    ///< first row
    std::size_t seqlens = 0;  ///< tables
    std::optional<std::size_t> borders = std::nullopt, entries = std::nullopt;
  };
  struct Group {
    HeadGroup part;
    AttentionProblem problem;
    std::optional<AttentionPlan> forward = std::nullopt;
    std::optional<BackwardPlan> backward = std::nullopt;
    std::vector<OwnCopy> copies = {};
    std::shared_ptr<const Plan> sum = nullptr;
    SumProblem sum_problem = {};

    std::int64_t row_elements() const { return sum_problem.row_floats(); }
    std::int64_t first_entry() const { return part.entries.begin; }
    std::int64_t first_query_head() const { return part.heads.begin * (problem.heads_q / problem.heads_kv); }
  };
  /// K and V of a group in a slot, or their gradients.
  struct SlotTensors {
    std::byte *k, *v;
    TensorStrides k_strides, v_strides;
  };
  /// Where slots begin in the workspace; bytes. Group g uses slot g % 2 of each kind.
  struct Layout {
    std::array<std::size_t, 2> keys{}, gradients{}, arrivals{};
    std::size_t bytes = 0;
  };

  void add_tables();
  Group group_of(const HeadGroup& part, const PlanMaker& make);
  void add_copies(Group& group, const PlanMaker& make);
  Layout layout() const;

  template <class Compute>
  void run_stages(const std::vector<GatherStage>& stages, const BackwardArgs& args, std::byte* workspace,
                  Stream stream, const Compute& compute);
  void exchange(const GatherStage& stage, std::byte* workspace);
  SlotTensors tensors_in(std::byte* slot, const Group& group, std::int64_t element_bytes) const;
  void copy_own(int group, const AttentionArgs& args, std::byte* workspace);
  void sum(int group, const BackwardArgs& args, std::byte* workspace, Stream stream);
  AttentionArgs forward_args(const Group& group, const AttentionArgs& args, std::byte* keys) const;
  BackwardArgs backward_args_of(const Group& group, const BackwardArgs& args, std::byte* keys,
                                std::byte* gradients) const;

  GatherWork of_;
  Communicator& communicator_;
  DeviceTables tables_;
  std::optional<std::size_t> cu_seqlens_q_, cu_seqlens_k_, pieces_;  ///< tables
  std::size_t sum_rows_ = 0;                                         ///< table
  std::int64_t parts_ = 1;                                           ///< of sums
  std::vector<Group> groups_;
  Layout layout_;
  StreamPair streams_;
  std::vector<Transfer> transfers_;  ///< of the current exchange
};

}  // namespace fa2
