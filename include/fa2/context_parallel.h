// One attention over a sequence whose tokens are sharded over ranks (context parallelism).
//
//   const ShardLayout layout = ShardLayout::zigzag(tokens, communicator.size(), 128);
//   ContextParallelPlan plan = context.context_parallel_plan(problem, layout, communicator);   // on every rank
//   plan.run(args, stream);                                                                    // on every rank
#pragma once

#include <fa2/backward.h>
#include <fa2/communicator.h>
#include <fa2/context.h>
#include <fa2/errors.h>
#include <fa2/plan_options.h>
#include <fa2/problem.h>
#include <fa2/report.h>
#include <fa2/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {

/// Consecutive tokens [begin, end) of the global stream, which is one sequence, or packed documents one after the other.
struct Slice {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  constexpr std::int64_t size() const { return end - begin; }
  friend constexpr bool operator==(const Slice& a, const Slice& b) {
    return a.begin == b.begin && a.end == b.end;
  }
  friend constexpr bool operator!=(const Slice& a, const Slice& b) { return !(a == b); }
};

/// Which rank holds which tokens. A rank's tensors have its slices one after the other. Ranks may hold different numbers of tokens,
/// and none. The functions that make a layout join slices that touch, and leave out empty ones. Chunks begin at multiples of
/// `granule` tokens of the stream or document, and the sizes of chunks differ by at most one granule.
struct FA2_API ShardLayout {
  std::int64_t tokens = 0;                ///< tokens of the global stream; >= 0
  std::vector<std::vector<Slice>> ranks;  ///< slices per rank, in ascending order; together each token once

  /// Returns chunk r of P for rank r. Under a causal mask the last rank has twice the mean work.
  static ShardLayout contiguous(std::int64_t tokens, int ranks, std::int64_t granule = 1);

  /// Returns chunks r and 2P - 1 - r of 2P for rank r. Under a causal mask all ranks have the same work.
  static ShardLayout zigzag(std::int64_t tokens, int ranks, std::int64_t granule = 1);

  /// Returns the zigzag of each document, one after the other. `cu_seqlens`: where documents begin, and the end: 0, ..., tokens.
  /// Documents much shorter than 2P granules are not balanced: see balanced().
  static ShardLayout zigzag_documents(const std::vector<std::int64_t>& cu_seqlens, int ranks,
                                      std::int64_t granule = 1);

  /// Returns chunks of `chunk` tokens, dealt so that ranks have nearly equal work under the problem's mask and window: the chunk with
  /// most work first, to the rank with least work among those that lack chunks. Numbers of chunks differ by at most 1. `cu_seqlens`
  /// as for zigzag_documents(), or empty without documents. A rank may have many slices.
  static ShardLayout balanced(const AttentionProblem& problem, const std::vector<std::int64_t>& cu_seqlens,
                              int ranks, std::int64_t chunk);

  int size() const { return static_cast<int>(ranks.size()); }  ///< returns the number of ranks
  std::int64_t tokens_of(int rank) const;                      ///< returns the number of tokens of a rank

  friend bool operator==(const ShardLayout& a, const ShardLayout& b) {
    return a.tokens == b.tokens && a.ranks == b.ranks;
  }
  friend bool operator!=(const ShardLayout& a, const ShardLayout& b) { return !(a == b); }
};

/// Returns what is wrong with a layout: slices outside the stream or out of order, tokens on no rank or on several.
FA2_API std::vector<Violation> violations(const ShardLayout& layout);

/// Returns for example "8 tokens: 0 [0, 2) [6, 8); 1 [2, 6)".
FA2_API std::string to_string(const ShardLayout& layout);

/// How ranks share the work.
///   gather_heads: each rank gathers the keys and values that its queries see, by groups of heads. While it computes one group, the
///     next one arrives, and float32 dK and dV of the previous one go to their owners. Owners add them in rank order. Ranks merge nothing.
///   local: no rank needs another's keys, so ranks exchange nothing.
///   all_to_all: each rank computes some heads for all tokens (DeepSpeed Ulysses, arXiv 2309.14509). Q, K and V travel to the ranks of
///     their heads, by groups of heads, and O comes back; in the backward O and dO travel too, and gradients come back. Any layout will
///     do, and all ranks have equal work under every mask. Needs as many key/value heads as ranks, and neither dropout nor texts of
///     scores, which read the numbers of heads.
///   staged: each rank attends to the keys of one rank at a time, while the next rank's keys arrive (ring attention, arXiv 2310.01889, but
///     owners send their keys themselves). Float32 parts of O are merged, and those of dQ added. dK and dV are added in the order of the
///     stages. The exchange is hidden whatever the number of heads, except for the last gradients on their way home, but merges take
///     time. Needs at most two slices of a document on each rank, and neither dropout nor texts of scores, which read the numbers of keys.
///   automatic: local, else gather_heads; all_to_all where the layout has too many slices for gather_heads, or where the key/value
///     heads are a multiple of the ranks and fewer bytes travel before the first kernel.
enum class ContextParallelScheme : std::uint8_t { automatic, gather_heads, local, all_to_all, staged };
FA2_API std::string_view to_string(ContextParallelScheme);

/// Must be equal on all ranks.
struct ContextParallelOptions {
  ContextParallelScheme scheme = ContextParallelScheme::automatic;
  /// Most groups; >= 0; 0: chosen for each pass. A group is key/value heads; in gather_heads whole batch entries, if there are several; 0 in
  /// staged, which has stages. More groups hide more of the exchange, and need less memory, but each has a last wave of tiles. The first of
  /// two groups of a forward by gather_heads is a quarter.
  std::int32_t groups = 0;
  /// The gradients that run_backward() computes; absent: none. dK and dV go together.
  std::optional<Gradients> gradients = std::nullopt;
  PlanOptions plan = {};  ///< what every call guarantees, on every rank
};

/// What a plan does on its rank, and why.
struct ContextParallelExplanation {
  ContextParallelScheme scheme = ContextParallelScheme::gather_heads;
  std::string reason;  ///< one sentence: why this scheme, and these groups
  int rank = 0;
  int ranks = 1;
  int groups = 1;                ///< of a forward; stages if staged
  int backward_groups = 0;       ///< of a backward; stages if staged; 0 without gradients
  std::int64_t tokens = 0;       ///< of the rank
  std::int64_t needed_keys = 0;  ///< keys that the rank's queries see, its own among them
  std::int64_t pairs = 0;  ///< pairs of a query of the rank and a key that it sees; per head and batch entry
  std::vector<std::int64_t> sent_bytes;      ///< by a forward, to each rank
  std::vector<std::int64_t> received_bytes;  ///< by a forward, from each rank
  std::string transport;                     ///< how messages travel, and why; empty if none do
  std::size_t peer_bytes =
      0;  ///< memory that ranks map, shared by the communicator's plans; 0 if messages travel otherwise
  std::size_t workspace_bytes = 0;      ///< 0 with peer_bytes
  std::optional<Explanation> forward;   ///< of the first group or stage; absent without queries
  std::optional<Explanation> backward;  ///< of the first group or stage; absent without queries or gradients
};

/// Returns a few lines: the scheme, and the bytes of each rank.
FA2_API std::string to_string(const ContextParallelExplanation&);

/// Attention over all tokens of a ShardLayout, prepared for one rank and its device. Cheap to copy; copies share one state.
///
/// Calls are collective: all ranks must make and run the same plans in the same order. One thread at a time may run a plan, and plans of
/// one communicator too, because a Communicator has one caller at a time. The communicator must outlive the plan.
///
/// Arguments describe the rank's own tokens. Q, K, V and O are (batch, tokens, heads, dim), and LSE is (batch, heads_q, tokens). With
/// documents they are (tokens, heads, dim) and (heads_q, tokens). Tables of sequences, query_pieces and block_map must be null: the plan
/// has its own.
///
/// LSE covers all tokens. With batch_invariant, O has one device's bits if chunks of the layout begin at multiples of 128 tokens, and
/// neither a window nor attention_chunk leaves out keys; not if staged. dK and dV have the same bits in every run if Gradients::determinism is bitwise.
/// Gradients of sinks and of captures are the rank's own part; the sum over all ranks is the gradient.
///
/// A rank that fails throws. The others wait for it until their communicator's timeout, and then throw a CommunicationError. Where messages
/// travel through peer memory (explain().transport), streams wait without a timeout. Destroying the plan ends that: results are
/// undefined, and later runs of the communicator throw.
class FA2_API ContextParallelPlan {
 public:
  /// Enqueues the forward. Kernels run on `stream`, and exchanges on a stream of the plan; later work on `stream` follows both.
  /// @throws InvalidRequest before anything is exchanged; CudaError; CommunicationError.
  void run(const AttentionArgs& args, Stream stream = nullptr) const;

  /// Enqueues the backward. O, LSE and their gradients are those of the rank's own tokens. The plan must have
  /// ContextParallelOptions::gradients. @throws as run().
  void run_backward(const BackwardArgs& args, Stream stream = nullptr) const;

  /// Returns the size of the arguments' `workspace` in bytes, a multiple of 256. The workspace may hold anything. One run at a time may
  /// use it. Null: the run takes memory of the stream.
  std::size_t workspace_bytes() const;

  const AttentionProblem& problem() const;  ///< of all tokens
  const ContextParallelExplanation& explain() const;

  struct Impl;
  explicit ContextParallelPlan(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// Call Context::default_context().context_parallel_attention(), and _backward().
FA2_API void context_parallel_attention(const AttentionProblem& problem, const AttentionArgs& args,
                                        Communicator& communicator, Stream stream = nullptr);
FA2_API void context_parallel_attention_backward(const AttentionProblem& problem, const BackwardArgs& args,
                                                 Communicator& communicator, Stream stream = nullptr);

/// What a plan of decoding does on its rank.
struct ContextParallelDecodeExplanation {
  Explanation attention;            ///< of the rank's own keys
  std::string transport;            ///< how messages travel, and why
  std::size_t peer_bytes = 0;       ///< as in ContextParallelExplanation
  std::size_t workspace_bytes = 0;  ///< 0 with peer_bytes
};

/// Attention of few queries over sharded keys: each rank has some keys of every sequence, as in a cache that exceeds one GPU's memory.
/// Ranks exchange queries and parts of outputs, but no keys (Helix, arXiv 2507.07120).
///
/// The problem describes the rank's own keys, with all query heads. Rank r of P has heads [r H / P, (r + 1) H / P) of Q, O and LSE, for
/// all queries. A mask or window counts the rank's own keys, so it needs query_pieces that say where queries stand among them. Only rank
/// 0 reads sinks.
///
/// What ContextParallelPlan says of collective calls and lifetimes applies here too. Every run has the same bits. Parts are float32, so
/// O is rounded once, or not at all with float32_out.
class FA2_API ContextParallelDecodePlan {
 public:
  /// Enqueues the call. `args`: Q, O and LSE of the rank's heads, everything else of its own keys. @throws InvalidRequest before
  /// anything is exchanged; CudaError; CommunicationError.
  void run(const AttentionArgs& args, Stream stream = nullptr) const;

  /// As ContextParallelPlan::workspace_bytes().
  std::size_t workspace_bytes() const;

  const ContextParallelDecodeExplanation& explain() const;

  struct Impl;
  explicit ContextParallelDecodePlan(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace fa2
