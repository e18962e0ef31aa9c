// The gradients of attention (FlashAttention-2, arXiv 2307.08691, section 3.1.2).
//
//   fa2::attention(problem, forward, stream);            // with forward.lse
//   fa2::BackwardArgs args = fa2::backward_args(forward);
//   args.d_out = d_out, args.d_out_strides = forward.out_strides;
//   args.dq = dq, args.dq_strides = forward.q_strides;   // and dk, dv
//   fa2::attention_backward(problem, args, stream);
#pragma once

#include <fa2/attention.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace fa2 {

/// How gradients may differ between runs.
///   fastest: dQ may be accumulated over key tiles in any order, in float32, so that its last bits may differ. dK and dV have the
///     same bits in every run of one GPU model, but these may depend on the rest of the batch.
///   bitwise: every run has the same bits, and those of a sequence do not depend on the rest of the batch, because the heuristic
///     chooses the kernels whatever was measured. A problem with batch_invariant always takes this.
enum class Determinism : std::uint8_t { fastest, bitwise };

/// The data of one call: pointers to memory of the plan's device, of the problem's dtype unless another is named.
struct BackwardArgs {
  /// The arguments of the forward. `o` and `lse` are inputs here, and must not be null. Numbers of variants and tables of sequences
  /// must be the forward's. ALiBi's slopes get no gradient. `workspace` and `max_logits` are ignored.
  AttentionArgs forward;

  const void* d_out = nullptr;  ///< gradient of O, shaped like O
  /// Optional: gradient of LSE, which has the problem's lse_base; float32, shaped like LSE.
  const float* d_lse = nullptr;

  /// Gradients of Q, K and V, shaped like them. A pointer must be null if and only if the plan does not compute that gradient. Rows
  /// that take part in no score get 0. Kernels do not write rows of no sequence. dK and dV are float32
  /// with float32_dk_dv, and dQ is with float32_dq.
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  /// Gradient of sinks, summed over all rows of the batch; float32 (heads_q); null if the plan does not compute it.
  float* d_sinks = nullptr;
  /// Gradients of captures, summed over all scores that read them: one pointer for each of forward.captures, to contiguous float32 of
  /// its sizes; null where none is wanted. Only tensors of a floating type that the bias or the mod reads have one. The call sets
  /// them to 0 first, unless batch is 0. Sums are float32 in any order, whose last bits differ between runs; bitwise ones are in fixed
  /// point, with a unit of 2^-24 of the greatest part or less, and take 8 bytes of the stream's memory per element. An infinite part
  /// makes them NaN. Null if the plan computes none. Read during the call.
  float* const* d_captures = nullptr;

  /// Applies to attention_backward(). Plans have their own and ignore it.
  Determinism determinism = Determinism::fastest;

  TensorStrides d_out_strides;  ///< any strides, as for other inputs
  TensorStrides dq_strides;     ///< rows must not overlap; slices of one packed dQKV tensor are fine
  TensorStrides dk_strides;
  TensorStrides dv_strides;

  /// Optional: BackwardPlan::workspace_bytes() bytes at a multiple of 256, which overlap nothing else and may hold anything. One
  /// launch at a time may use them. Null: the call allocates memory of the stream and frees it. In a captured graph that memory is
  /// the graph's own, so the graph can have one executable at a time and cannot be cloned.
  void* workspace = nullptr;

  /// A row per member.
  template <class Take>
  static constexpr auto rows(const Take& take) {
    using B = BackwardArgs;
    return take(
        row("forward", &B::forward).help("the forward's arguments, with out and lse as inputs"),
        row("d_out", &B::d_out, &B::d_out_strides).shape(AttentionArgs::kOutputShape).help("gradient of O"),
        row("d_lse", &B::d_lse)
            .shape("(heads_q, total_q) if cu_seqlens_q | (batch, heads_q, seqlen_q)")
            .optional()
            .help("gradient of LSE"),
        row("dq", &B::dq, &B::dq_strides)
            .shape(AttentionArgs::kQueryShape)
            .or_type("float32", "float32_dq")
            .optional()
            .help("gradient of Q"),
        row("dk", &B::dk, &B::dk_strides)
            .shape("(total_k, heads_kv, head_dim) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim)")
            .or_type("float32", "float32_dk_dv")
            .optional()
            .help("gradient of K"),
        row("dv", &B::dv, &B::dv_strides)
            .shape(
                "(total_k, heads_kv, head_dim_v) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim_v)")
            .or_type("float32", "float32_dk_dv")
            .like("dk")
            .optional()
            .help("gradient of V"),
        row("d_sinks", &B::d_sinks)
            .shape("(heads_q)")
            .used_if("sinks")
            .with("sinks")
            .optional()
            .help("gradient of sinks, summed over all rows of the batch"),
        row("d_captures", &B::d_captures)
            .help("gradients of captures: contiguous float32 for each capture of score_text, NULL where none "
                  "is "
                  "wanted"),
        row("determinism", &B::determinism).help("how gradients may differ between runs"),
        row("workspace", &B::workspace)
            .optional()
            .help("memory for launches: see fa2_backward_plan_workspace_bytes()"));
  }
};

/// Which gradients a plan computes, and how; at least one. A plan neither computes nor reads anything only for the others.
struct Gradients {
  bool dq = true;
  bool dk = true;
  bool dv = true;
  bool d_sinks = false;  ///< needs a problem with sinks
  /// The gradients of captured tensors that BackwardArgs::d_captures asks for.
  bool d_captures = false;
  Determinism determinism = Determinism::fastest;

  /// A row per member; in C a bit per bool, in this order.
  template <class Take>
  static constexpr auto rows(const Take& take) {
    using G = Gradients;
    return take(row("dq", &G::dq), row("dk", &G::dk), row("dv", &G::dv), row("d_sinks", &G::d_sinks),
                row("d_captures", &G::d_captures), row("determinism", &G::determinism));
  }

  FA2_API friend bool operator==(const Gradients&, const Gradients&);
  friend bool operator!=(const Gradients& a, const Gradients& b) { return !(a == b); }
};

/// Returns arguments that hold the forward's. The caller sets the gradients.
FA2_API BackwardArgs backward_args(const AttentionArgs& forward);

/// The backward of a problem, prepared for one device. Immutable and cheap to copy. All members may be called from any thread.
/// CUDA graphs may capture run(); what AttentionPlan says of their lifetimes applies here too.
///
/// With grouped heads, dK and dV are summed over the group in float32.
class FA2_API BackwardPlan {
 public:
  /// Validates the arguments and launches, without synchronisation. Takes no lock and allocates nothing, except for memory of the
  /// stream's if the arguments have no workspace.
  /// @throws InvalidRequest with everything wrong with the arguments, before any launch; CudaError.
  void run(const BackwardArgs& args, Stream stream = nullptr) const;

  /// As AttentionPlan::map_blocks().
  void map_blocks(const BackwardArgs& args, const BlockMap& map, Stream stream = nullptr) const;

  /// Returns the size of BackwardArgs::workspace in bytes, a multiple of 256: 0 for dV alone, else 4 per row of Q and head. If key
  /// tiles accumulate dQ, 12 per row and head, and dQ in float32. Then each sequence has whole tiles of at most 128 rows, and
  /// columns are padded to a multiple of 16, or above 64 to 128 or 256.
  std::size_t workspace_bytes() const;

  const AttentionProblem& problem() const;
  const Explanation& explain() const;

  explicit BackwardPlan(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  const Plan& impl() const { return *plan_; }

 private:
  std::shared_ptr<const Plan> plan_;
};

/// Calls Context::default_context().attention_backward().
FA2_API void attention_backward(const AttentionProblem& problem, const BackwardArgs& args,
                                Stream stream = nullptr);

}  // namespace fa2
