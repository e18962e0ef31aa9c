// A run of attention by heads: copies to blocks, an exchange, attention of one GPU, an exchange, copies from blocks.
#include <parallel/head_engine.h>
#include <parallel/tensor_places.h>
#include <runtime/fill.h>
#include <runtime/stream_event.h>

namespace fa2 {

/// A tensor of the rank's own tokens.
struct OwnTensor {
  const void* data;
  TensorStrides strides;

  const void* head(std::int64_t number) const { return place_of(data, strides, 0, number); }
};

/// One forward or backward: the Engine of run_stages().
class HeadEngine::Run {
 public:
  Run(HeadEngine& engine, const BackwardArgs& args, std::byte* workspace, Stream stream, Pass pass)
      : engine_(engine),
        of_(engine.of_),
        args_(args),
        messages_(pass == Pass::backward ? engine.backward_ : engine.forward_),
        workspace_(workspace),
        stream_(stream),
        is_backward_(pass == Pass::backward) {
    const AttentionArgs& f = args.forward;
    in_ = {{f.q, f.q_strides}, {f.k, f.k_strides}, {f.v, f.v_strides}};
    if (!is_backward_) {
      out_ = {{f.out, f.out_strides}};
      return;
    }
    in_.insert(in_.end(), {{f.out, f.out_strides}, {args.d_out, args.d_out_strides}});
    if (of_.gradients.dq) out_.push_back({args.dq, args.dq_strides});
    if (of_.gradients.dk) out_.insert(out_.end(), {{args.dk, args.dk_strides}, {args.dv, args.dv_strides}});
  }

  /// What no group does: arrays that are sent, and gradients of sinks where no head of the rank writes.
  void start() const {
    if (!is_backward_) return;
    copy_on_stream(own_array(0), args_.forward.lse, engine_.own_array_bytes(), stream_);
    if (args_.d_lse != nullptr)
      copy_on_stream(own_array(1), args_.d_lse, engine_.own_array_bytes(), stream_);
    else
      fill_zeros(own_array(1), engine_.own_array_bytes(), stream_);
    if (args_.d_sinks != nullptr)
      fill_zeros(args_.d_sinks, static_cast<std::size_t>(of_.problem.heads_q * kFloatBytes), stream_);
  }
  /// What no group does: the array that has arrived.
  void finish() const {
    if (!is_backward_ && args_.forward.lse != nullptr)
      copy_on_stream(args_.forward.lse, own_array(0), engine_.own_array_bytes(), stream_);
  }

  void prepare(int group, Stream stream) const {
    for_each_block(group, messages_.in, engine_.layout_.sent,
                   [&](const TensorCopy& copy, std::size_t tensor, std::int64_t head, std::byte* block,
                       const TensorStrides& strides) {
                     enqueue(copy, in_[tensor].head(head), in_[tensor].strides, block, strides, zero(),
                             stream);
                   });
  }

  void complete(int group) const {
    for_each_block(group, messages_.out, engine_.layout_.returned,
                   [&](const TensorCopy& copy, std::size_t tensor, std::int64_t head, std::byte* block,
                       const TensorStrides& strides) {
                     enqueue(copy, block, strides, const_cast<void*>(out_[tensor].head(head)),
                             out_[tensor].strides, zero(), stream_);
                   });
  }

  void compute(int number) const {
    const Group& group = engine_.groups_[number];
    if (is_backward_)
      group.backward->run(backward_args_of(number), stream_);
    else
      group.forward->run(forward_args(number), stream_);
  }

  void run() const {
    start();
    run_stages(engine_.stages_, engine_.carrier_, engine_.streams_, stream_, *this);
    finish();
  }

  const std::vector<Transfer>& transfers_of(const Stage& stage) const {
    engine_.transfers_.clear();
    const Layout& at = engine_.layout_;
    if (stage.gathers) {
      add_rows(*stage.gathers, Direction::to_heads, messages_.in, at.sent, at.gathered);
      if (is_backward_) add_arrays(*stage.gathers, Direction::to_heads);
    }
    if (stage.returns) {
      add_rows(*stage.returns, Direction::home, messages_.out, at.returned, at.results);
      if (!is_backward_) add_arrays(*stage.returns, Direction::home);
    }
    return engine_.transfers_;
  }

 private:
  std::byte* slot(const SlotOffsets& slots, int group) const { return workspace_ + slots[group % kSlots]; }
  float* own_array(std::size_t number) const {
    return reinterpret_cast<float*>(workspace_ + engine_.layout_.own_arrays[number]);
  }
  const float* zero() const { return reinterpret_cast<const float*>(engine_.tables_.at(engine_.zero_)); }

  /// Returns the array of all tokens of the group's own heads.
  float* whole_array(int group, std::size_t number) const {
    const std::int64_t heads = engine_.groups_[group].heads.size() * of_.queries_per_kv();
    return reinterpret_cast<float*>(slot(engine_.layout_.arrays, group)) +
           static_cast<std::int64_t>(number) * of_.entries() * heads * of_.tokens();
  }

  /// Calls visit(copy, tensor, first head, address, strides) for each tensor in each rank's block.
  template <class Visit>
  void for_each_block(int number, const HeadRow& row, const SlotOffsets& slots, const Visit& visit) const {
    if (engine_.own_tokens_ == 0) return;
    std::byte* block = slot(slots, number);
    for (const Slice& share : engine_.groups_[number].shares) {
      for (std::size_t tensor = 0; tensor < row.tensors(); ++tensor) {
        const std::int64_t heads = row.heads(tensor);
        visit(engine_.copies_.at({share.size() * heads, row.dim(tensor)}), tensor, share.begin * heads,
              row.place(block, tensor, share.size()), row.strides(tensor, share.size(), engine_.own_tokens_));
      }
      block += of_.entries() * engine_.own_tokens_ * share.size() * row.elements() * kElementBytes;
    }
  }

  void add_rows(int number, Direction direction, const HeadRow& row, const SlotOffsets& blocks,
                const SlotOffsets& whole) const {
    const Group& group = engine_.groups_[number];
    const auto memory = [&](std::byte* data, const Slice& heads, std::int64_t rows) {
      const std::int64_t row_bytes = heads.size() * row.elements() * kElementBytes;
      return RowMemory{data, of_.entries(), rows * row_bytes, row_bytes};
    };
    HeadExchange exchange{{}, memory(slot(whole, number), group.heads, of_.tokens())};
    std::byte* block = slot(blocks, number);
    for (const Slice& share : group.shares) {
      exchange.blocks.push_back(memory(block, share, engine_.own_tokens_));
      block += of_.entries() * exchange.blocks.back().entry_bytes;
    }
    add_transfers(engine_.transfers_, exchange, direction, of_.held, engine_.carrier_.rank());
  }

  /// A head of an array is an entry whose rows are floats.
  void add_arrays(int number, Direction direction) const {
    const Group& group = engine_.groups_[number];
    const std::int64_t queries = of_.queries_per_kv();
    const auto memory = [&](float* data, std::int64_t first_head, const Slice& heads, std::int64_t rows) {
      return RowMemory{reinterpret_cast<std::byte*>(data + first_head * rows), heads.size() * queries,
                       rows * kFloatBytes, kFloatBytes};
    };
    for (std::size_t array = 0; array < messages_.arrays; ++array) {
      for (std::int64_t entry = 0; entry < of_.entries(); ++entry) {
        HeadExchange exchange{{},
                              memory(whole_array(number, array), entry * group.heads.size() * queries,
                                     group.heads, of_.tokens())};
        for (const Slice& share : group.shares)
          exchange.blocks.push_back(memory(own_array(array),
                                           entry * of_.problem.heads_q + share.begin * queries, share,
                                           engine_.own_tokens_));
        add_transfers(engine_.transfers_, exchange, direction, of_.held, engine_.carrier_.rank());
      }
    }
  }

  AttentionArgs forward_args(int number) const {
    const Group& group = engine_.groups_[number];
    const std::int64_t heads = group.heads.size(), first = group.heads.begin * of_.queries_per_kv();
    const HeadRow& row = messages_.in;
    std::byte* const in = slot(engine_.layout_.gathered, number);
    AttentionArgs a = args_.forward;
    a.q = row.place(in, 0, heads), a.q_strides = row.strides(0, heads, of_.tokens());
    a.k = row.place(in, 1, heads), a.k_strides = row.strides(1, heads, of_.tokens());
    a.v = row.place(in, 2, heads), a.v_strides = row.strides(2, heads, of_.tokens());
    const HeadRow& out_row = is_backward_ ? messages_.in : messages_.out;
    const std::size_t out = is_backward_ ? 3 : 0;
    a.out = out_row.place(is_backward_ ? in : slot(engine_.layout_.results, number), out, heads);
    a.out_strides = out_row.strides(out, heads, of_.tokens());
    a.lse = whole_array(number, 0);
    a.sinks = at_or_null(a.sinks, first);
    a.alibi_slopes = at_or_null(a.alibi_slopes, first);
    if (of_.problem.varlen) a.cu_seqlens_q = a.cu_seqlens_k = engine_.tables_.at(engine_.cu_seqlens_);
    a.workspace = nullptr;
    return a;
  }

  BackwardArgs backward_args_of(int number) const {
    const Group& group = engine_.groups_[number];
    const std::int64_t heads = group.heads.size();
    BackwardArgs a = args_;
    a.forward = forward_args(number);
    a.d_out = messages_.in.place(slot(engine_.layout_.gathered, number), 4, heads);
    a.d_out_strides = messages_.in.strides(4, heads, of_.tokens());
    a.d_lse = whole_array(number, 1);
    std::byte* const results = slot(engine_.layout_.results, number);
    std::size_t tensor = 0;
    const auto next = [&](void*& data, TensorStrides& strides) {
      data = messages_.out.place(results, tensor, heads);
      strides = messages_.out.strides(tensor++, heads, of_.tokens());
    };
    if (of_.gradients.dq) next(a.dq, a.dq_strides);
    if (of_.gradients.dk) next(a.dk, a.dk_strides), next(a.dv, a.dv_strides);
    a.d_sinks = at_or_null(a.d_sinks, group.heads.begin * of_.queries_per_kv());
    a.workspace = nullptr;
    return a;
  }

  HeadEngine& engine_;
  const HeadWork& of_;
  const BackwardArgs& args_;
  const Messages& messages_;
  std::byte* workspace_;
  Stream stream_;
  bool is_backward_;
  std::vector<OwnTensor> in_, out_;  ///< in the order of their rows
};

MessageLists HeadEngine::messages(Pass pass, std::byte* workspace) {
  if (pass == Pass::backward && backward() == nullptr) return {};
  const BackwardArgs none;
  return messages_of(stages_, Run(*this, none, workspace, nullptr, pass));
}

void HeadEngine::run(const AttentionArgs& args, std::byte* workspace, Stream stream) {
  Run(*this, backward_args(args), workspace, stream, Pass::forward).run();
}

void HeadEngine::run_backward(const BackwardArgs& args, std::byte* workspace, Stream stream) {
  Run(*this, args, workspace, stream, Pass::backward).run();
}

}  // namespace fa2
