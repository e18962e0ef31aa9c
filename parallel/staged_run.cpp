// The launches and messages of stages.
#include <parallel/element_sizes.h>
#include <parallel/key_value_rows.h>
#include <parallel/staged_engine.h>
#include <planning/merge.h>

#include <algorithm>

namespace fa2 {

/// One forward or backward: the Engine of run_stages().
class StagedEngine::Run {
 public:
  Run(StagedEngine& engine, const BackwardArgs& args, std::byte* workspace, Stream stream, Pass pass)
      : engine_(engine),
        at_(engine.layout_),
        args_(args),
        workspace_(workspace),
        stream_(stream),
        pass_(pass) {}

  void prepare(int number, Stream stream) const {
    if (number == 0)
      engine_.own_.enqueue(args_.forward, 0, 0, rows_at(at_.outbox, engine_.tokens(), kElementBytes),
                           engine_.tables_, stream);
  }

  const std::vector<Transfer>& transfers_of(const Stage& at) const {
    engine_.transfers_.clear();
    if (at.gathers) {
      const KeyStage& stage = engine_.stage(*at.gathers);
      add(stage.gather, at_.outbox, engine_.tokens(), slot(at_.keys, *at.gathers), stage.rows, kElementBytes);
    }
    if (at.returns) {
      const KeyStage& stage = engine_.stage(*at.returns);
      add(stage.returns, slot(at_.gradients, *at.returns), stage.rows, slot(at_.arrivals, *at.returns),
          stage.arrivals, kFloatBytes);
    }
    return engine_.transfers_;
  }

  /// Adds dK and dV that have come home.
  void complete(int number) const {
    const Sum& sum = engine_.plans_[number].keys;
    if (!sum.plan) return;
    const KeyValueRows own = rows_at(at_.own_gradients, engine_.tokens(), kFloatBytes);
    SumArgs args{floats(at_.own_gradients), floats(slot(at_.arrivals, number)), engine_.tables_.at(sum.rows)};
    args.dk = args_.dk, args.dk_strides = args_.dk_strides;
    args.dv = args_.dv, args.dv_strides = args_.dv_strides;
    if (sum.problem.float32_sums)
      args.dk = own.k, args.dk_strides = own.k_strides, args.dv = own.v, args.dv_strides = own.v_strides;
    launch(*sum.plan, args, operands_of(sum.problem, args), nullptr, stream_);
  }

  void compute(int number) const {
    const StagePlans& plans = engine_.plans_[number];
    if (pass_ == Pass::forward && plans.forward) {
      plans.forward->run(forward_args(number), stream_);
      merge(plans);
    }
    if (pass_ == Pass::backward && plans.backward) {
      plans.backward->run(backward_args_of(number), stream_);
      add_queries(plans);
    }
  }

 private:
  /// Returns where the slot of a stage begins. Own keys need none.
  std::size_t slot(const SlotOffsets& slots, int number) const {
    return slots[std::max(number - engine_.own_stages_, 0) % kSlots];
  }
  float* floats(std::size_t begin) const { return reinterpret_cast<float*>(workspace_ + begin); }
  KeyValueRows rows_at(std::size_t begin, std::int64_t rows, std::int64_t element_bytes) const {
    return key_value_rows(engine_.of_.shard, rows, workspace_ + begin, element_bytes);
  }

  void add(const std::vector<RowTransfer>& rows, std::size_t sent, std::int64_t sent_rows,
           std::size_t received, std::int64_t received_rows, std::int64_t element_bytes) const {
    add_transfers(engine_.transfers_, rows, engine_.entries(), {workspace_ + sent, sent_rows},
                  {workspace_ + received, received_rows},
                  static_cast<std::size_t>(key_value_elements(engine_.of_.shard) * element_bytes));
  }

  /// Returns the stage's rows of a slot or, of own keys, of the rows of the outbox.
  KeyValueRows stage_rows(int number, std::size_t own, const SlotOffsets& slots,
                          std::int64_t element_bytes) const {
    const KeyStage& stage = engine_.stage(number);
    if (!stage.own) return rows_at(slot(slots, number), stage.rows, element_bytes);
    KeyValueRows rows = rows_at(own, engine_.tokens(), element_bytes);
    const std::int64_t begin = *stage.own * rows.k_strides.row * element_bytes;
    rows.k += begin, rows.v += begin;
    return rows;
  }

  /// Returns the arguments that forwards and backwards share.
  AttentionArgs keys_of(int number) const {
    AttentionArgs a = args_.forward;
    const KeyValueRows keys = stage_rows(number, at_.outbox, at_.keys, kElementBytes);
    a.k = keys.k, a.k_strides = keys.k_strides;
    a.v = keys.v, a.v_strides = keys.v_strides;
    const StagePlans& plans = engine_.plans_[number];
    if (plans.number > 0) a.sinks = nullptr;
    plans.sequences.set(a, engine_.of_.works[number], engine_.tables_);
    a.workspace = nullptr;
    return a;
  }

  /// Returns the strides of float32 rows of all query heads.
  TensorStrides query_strides(std::int64_t dim) const {
    const std::int64_t row = engine_.of_.shard.heads_q * dim;
    return {engine_.tokens() * row, dim, row};
  }

  /// The first stage's part is the running one.
  AttentionArgs forward_args(int number) const {
    AttentionArgs a = keys_of(number);
    const bool is_first = engine_.plans_[number].number == 0;
    a.out = workspace_ + at_.out[is_first ? 0 : 1];
    a.out_strides = query_strides(engine_.of_.shard.head_dim_v);
    a.lse = floats(at_.lse[is_first ? 0 : 2]);
    a.empty_row_lse = EmptyRowLse::negative_infinity;
    return a;
  }

  BackwardArgs backward_args_of(int number) const {
    BackwardArgs a = args_;
    a.forward = keys_of(number);
    const StagePlans& plans = engine_.plans_[number];
    if (a.dq != nullptr) {
      a.dq = workspace_ + at_.dq[plans.number == 0 ? 0 : 1];
      a.dq_strides = query_strides(engine_.of_.shard.head_dim);
    }
    if (a.dk != nullptr) {
      const KeyValueRows rows = stage_rows(number, at_.own_gradients, at_.gradients, kFloatBytes);
      a.dk = rows.k, a.dk_strides = rows.k_strides;
      a.dv = rows.v, a.dv_strides = rows.v_strides;
    }
    if (plans.number > 0) a.d_sinks = nullptr;
    a.workspace = nullptr;
    return a;
  }

  /// Merges a stage's part into the running one. LSE goes to the other of its two places, because every thread of a row reads it.
  void merge(const StagePlans& plans) const {
    if (!plans.merge.plan) return;
    const AttentionArgs& call = args_.forward;
    const MergeProblem& p = plans.merge.problem;
    const std::size_t running = plans.number == 0 ? 0 : (plans.number - 1) % 2;
    MergeArgs args;
    args.parts = floats(at_.out[0]);
    args.part_stride = floats(at_.out[1]) - floats(at_.out[0]);
    args.parts_strides = args.out_strides = query_strides(p.head_dim);
    args.lse_parts = floats(at_.lse[running]);
    args.lse_part_stride = floats(at_.lse[2]) - floats(at_.lse[running]);
    args.lse_parts_strides = {p.heads * p.seqlen, p.seqlen, 1};
    args.out = floats(at_.out[0]);
    args.lse = floats(at_.lse[1 - running]);
    args.empty_row_lse = EmptyRowLse::negative_infinity;
    if (plans.is_last) {
      args.out = call.out, args.out_strides = call.out_strides;
      args.lse = call.lse, args.empty_row_lse = call.empty_row_lse;
    }
    launch(*plans.merge.plan, args, operands_of(p, args), nullptr, stream_);
  }

  /// Adds a stage's dQ to the running one, or rounds the last sum.
  void add_queries(const StagePlans& plans) const {
    if (!plans.queries.plan) return;
    SumArgs args{floats(at_.dq[0]), floats(at_.dq[1]), engine_.tables_.at(plans.queries.rows)};
    args.dk = args_.dq, args.dk_strides = args_.dq_strides;
    if (plans.queries.problem.float32_sums)
      args.dk = floats(at_.dq[0]), args.dk_strides = query_strides(engine_.of_.shard.head_dim);
    launch(*plans.queries.plan, args, operands_of(plans.queries.problem, args), nullptr, stream_);
  }

  StagedEngine& engine_;
  const Layout& at_;
  const BackwardArgs& args_;
  std::byte* workspace_;
  Stream stream_;
  Pass pass_;
};

MessageLists StagedEngine::messages(Pass pass, std::byte* workspace) {
  const BackwardArgs none;
  return messages_of(pass == Pass::backward ? backward_stages_ : forward_stages_,
                     Run(*this, none, workspace, nullptr, pass));
}

void StagedEngine::run(const AttentionArgs& args, std::byte* workspace, Stream stream) {
  const BackwardArgs forward = backward_args(args);
  run_stages(forward_stages_, carrier_, streams_, stream,
             Run(*this, forward, workspace, stream, Pass::forward));
}

void StagedEngine::run_backward(const BackwardArgs& args, std::byte* workspace, Stream stream) {
  run_stages(backward_stages_, carrier_, streams_, stream,
             Run(*this, args, workspace, stream, Pass::backward));
}

}  // namespace fa2
