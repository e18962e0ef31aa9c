// The gradients of attention (FlashAttention-2, arXiv 2307.08691, section 3.1.2).
//
//   fa2::attention(problem, forward, stream);            // with forward.lse
//   fa2::BackwardArgs args = fa2::backward_args(forward);
//   args.d_o = d_o, args.d_o_strides = forward.o_strides;
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
///   fastest: dQ may be accumulated over key tiles in any order, in float32, so that its last bits may differ.
///   bitwise: every run has the same bits, and those of a sequence do not depend on the rest of the batch, because the heuristic
///     chooses the kernels whatever was measured. A problem with batch_invariant always takes this.
enum class Determinism : std::uint8_t { fastest, bitwise };

/// One call's data. Device pointers of the plan's device, of the problem's dtype unless another is named.
struct BackwardArgs {
  /// What the forward was called with, and what it left: `o` and `lse`, which is not null, are inputs here. Numbers of
  /// variants and tables of sequences as in the forward; slopes get no gradient. Its workspace is not looked at.
  AttentionArgs forward;

  const void* d_o = nullptr;  ///< the gradient of O, shaped like O
  /// Optional: the gradient of LSE, float32 and shaped like LSE.
  const float* d_lse = nullptr;

  /// The gradients of Q, K and V, shaped like them: those that the plan computes, the others null. Rows that take no part
  /// in any score get 0; rows of no sequence keep what they hold.
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  /// The gradient of sinks, float32 (heads_q), if the plan computes it, else null: summed over all rows of the batch.
  float* d_sinks = nullptr;

  /// What attention_backward() runs. A plan has its own.
  Determinism determinism = Determinism::fastest;

  TensorStrides d_o_strides;  ///< any, as those of inputs
  TensorStrides dq_strides;   ///< of rows that do not overlap; slices of one packed dQKV tensor are fine
  TensorStrides dk_strides;
  TensorStrides dv_strides;

  /// Optional: BackwardPlan::workspace_bytes() bytes at a multiple of 256, whatever they hold, which overlap nothing else.
  /// They belong to one launch at a time. Null: memory of the stream's is taken and given back; a captured launch's is then
  /// the graph's own, which can have one executable at a time and cannot be cloned.
  void* workspace = nullptr;

  /// A row per member.
  template <class Take>
  static constexpr auto rows(const Take& take) {
    using B = BackwardArgs;
    return take(
        row("forward", &B::forward).help("the forward's arguments, with o and lse as inputs"),
        row("d_o", &B::d_o, &B::d_o_strides)
            .tensor("d_out")
            .shape(AttentionArgs::kOutputShape)
            .help("gradient of O"),
        row("d_lse", &B::d_lse)
            .shape("(heads_q, total_q) if cu_seqlens_q | (batch, heads_q, seqlen_q)")
            .optional()
            .help("gradient of LSE"),
        row("dq", &B::dq, &B::dq_strides).shape(AttentionArgs::kQueryShape).optional().help("gradient of Q"),
        row("dk", &B::dk, &B::dk_strides)
            .shape("(total_k, heads_kv, head_dim) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim)")
            .optional()
            .help("gradient of K"),
        row("dv", &B::dv, &B::dv_strides)
            .shape(
                "(total_k, heads_kv, head_dim_v) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim_v)")
            .optional()
            .help("gradient of V"),
        row("d_sinks", &B::d_sinks)
            .shape("(heads_q)")
            .used_if("sinks")
            .with("sinks")
            .optional()
            .help("gradient of sinks, summed over all rows of the batch"),
        row("determinism", &B::determinism).help("how gradients may differ between runs"),
        row("workspace", &B::workspace)
            .optional()
            .help("memory for launches: see fa2_backward_plan_workspace_bytes()"));
  }
};

/// Which gradients a plan computes, at least one, and how; nothing is computed, or read, for the others alone.
struct Gradients {
  bool dq = true;
  bool dk = true;
  bool dv = true;
  bool d_sinks = false;  ///< only of a problem with sinks
  Determinism determinism = Determinism::fastest;

  /// A row per member; in C a bit per bool, in this order.
  template <class Take>
  static constexpr auto rows(const Take& take) {
    using G = Gradients;
    return take(row("dq", &G::dq), row("dk", &G::dk), row("dv", &G::dv), row("d_sinks", &G::d_sinks),
                row("determinism", &G::determinism));
  }

  FA2_API friend bool operator==(const Gradients&, const Gradients&);
  friend bool operator!=(const Gradients& a, const Gradients& b) { return !(a == b); }
};

/// The forward's arguments, and nothing else yet.
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
