// The owner of kernels and plans, and the doors to attention.
#pragma once

#include <fa2/args.h>
#include <fa2/config.h>
#include <fa2/plan_options.h>
#include <fa2/problem.h>
#include <fa2/report.h>
#include <fa2/tuning.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {

struct AppendArgs;
struct AppendProblem;
struct BackwardArgs;
struct Gradients;
struct MergeArgs;
struct MergeProblem;
struct Plan;
class BackwardPlan;
class BlockMap;
class Communicator;
class ContextParallelDecodePlan;
class ContextParallelPlan;
struct ContextParallelOptions;
struct ShardLayout;

/// An attention problem prepared for one device: its configuration is chosen, its kernel compiled and loaded.
/// Immutable and cheap to copy. All members may be called from any thread.
///
/// run() may be captured into a CUDA graph. The graph owns no memory that its launches use, and capture fixes the pointers.
/// Until the last launch of the graph has finished, the caller must keep alive:
///   - the plan, a copy of it, or its Context; the last of these unloads the kernel and frees memory that the Context provided;
///   - all memory that the arguments point to, including the workspace.
/// The graph must be destroyed before the library is unloaded. Executables of one capture must not run at the same time.
/// The launches of a capture and stream that have no workspace hold one counter slot of their Context, of 2^18 per device or of
/// 2^12 for split KV, until the graph, its clones and its executables are destroyed and have finished.
class FA2_API AttentionPlan {
 public:
  /// Validates the arguments and launches, without synchronisation. Takes no lock and allocates nothing, with these exceptions:
  ///   - a captured launch without a workspace that needs counters;
  ///   - split KV without a workspace: its partial outputs lie in a stream-ordered pool of the Context;
  ///   - FA2_CHECK=1, which reads the tables of sequences (AttentionArgs::cu_seqlens_q);
  ///   - a block_map, whose lock is taken for a moment.
  /// @throws InvalidRequest with everything wrong with the arguments, before any launch; CudaError; Unavailable if graphs hold
  /// all counter slots of the Context.
  void run(const AttentionArgs& args, Stream stream = nullptr) const;

  /// Finds the blocks that run() of these arguments visits, by one launch, and keeps them in the map for AttentionArgs::block_map.
  /// Does nothing if the plan found them when it was made. @throws as run().
  void map_blocks(const AttentionArgs& args, const BlockMap& map, Stream stream = nullptr) const;

  /// Returns the size of AttentionArgs::workspace in bytes: a multiple of 256; 0 if no launch needs one.
  std::size_t workspace_bytes() const;
  /// Returns how many leading bytes of the workspace must be zero; the rest may hold anything.
  std::size_t workspace_zeros() const;

  const AttentionProblem& problem() const;
  const Explanation& explain() const;

  explicit AttentionPlan(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  const Plan& impl() const { return *plan_; }

 private:
  std::shared_ptr<const Plan> plan_;
};

enum class JitMode : std::uint8_t {
  on,  ///< compile a kernel that no cache holds, and meanwhile, on other cores, those that calls are likely to need next: a forward's
       ///< at other lengths, or the backward's if the call keeps the LSE (default)
  off,  ///< run a similar cached kernel; without one, the Unavailable error names the command that builds the missing one
  lazy  ///< compile what a call needs, when it needs it, and nothing else
};

/// Settings of a Context. An unset one comes from its environment variable, then from the default.
struct ContextOptions {
  std::optional<std::string> cache_dir;                      ///< FA2_CACHE_DIR, $XDG_CACHE_HOME/fa2
  std::optional<std::vector<std::string>> read_only_caches;  ///< FA2_CACHE_PATH, ':' separated
  std::optional<TuneMode> tune;                              ///< FA2_TUNE
  std::optional<std::int64_t> tune_budget_ms;                ///< FA2_TUNE_BUDGET_MS, 3000
  std::optional<KernelConfig> config;                        ///< FA2_CONFIG: pins the kernels of its pass
  std::optional<JitMode> jit;                                ///< FA2_JIT
};

/// precompile() calls it for each kernel that it has finished: on any thread, one call at a time.
class FA2_API PrecompileObserver {
 public:
  virtual ~PrecompileObserver() = default;
  virtual void finished(const PrecompiledKernel& kernel, std::size_t done, std::size_t total) = 0;
};

/// Which kernels precompile() makes for a problem.
enum class PrecompileScope : std::uint8_t {
  any_size,  ///< all that its dtype, head dims, mask and variants can run with, for every batch, number of heads and length:
             ///< the choices of the heuristic and of the tuning records (default)
  given_sizes  ///< the one that this problem runs with on a GPU without measurements
};

/// append() and merge() have one kernel per dtype, head dims and alignment. Everything else is a parameter of it.
struct PrecompileOptions {
  std::string
      out;  ///< directory to fill, or pack to write if it ends in ".fa2pack"; readable by every user; empty: the context's own
  int jobs = 0;  ///< compiling threads; 0: one per core
  PrecompileScope scope = PrecompileScope::any_size;
  std::vector<PlanOptions> plans =
      std::vector<PlanOptions>(1);  ///< each problem gets a plan with each of these
  bool backward = false;  ///< whether to add each problem's backward, which must exist, for any gradients
  bool append = false;    ///< whether to add append() to caches of the problem's K and V (fa2/append.h)
  bool merge = false;     ///< whether to add merge() of partial outputs like the problem's O (fa2/merge.h)
  /// A file that FA2_LOG_REQUESTS has written. Adds the kernels of its requests, for `archs`; if these are empty, for the GPU of
  /// each request.
  std::string requests;
  int shard = 0;   ///< makes every `shards`-th kernel, from this one on; 0 to shards - 1
  int shards = 1;  ///< machines that share the work; `fa2 pack merge` joins their packs
  PrecompileObserver* observer = nullptr;  ///< not owned
};

/// Owns the kernel caches, the tuning records and the memo of plans. Thread-safe. Contexts are independent of each other.
/// Its kernels are unloaded with it, unless a plan or a graph keeps them: wait for its launches before it is destroyed.
class FA2_API Context {
 public:
  explicit Context(const ContextOptions& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Returns the context of the free functions, which the first use makes from the environment.
  static Context& default_context();

  /// Runs a memoised plan on the current CUDA device, or on device 0's primary context if none is current. Without a GPU, or
  /// with FA2_DEVICE=interpreter, runs it on the interpreter. The plan's options are the strictest that the arguments satisfy:
  /// for example, rows without 16-byte alignment take the plan of RowAlignment::element. Once a problem has been called, further
  /// calls take a shared lock and allocate nothing. While `stream` captures, the problem must already have a plan.
  /// @throws InvalidRequest, CompileError, CudaError, Unavailable.
  void attention(const AttentionProblem& problem, const AttentionArgs& args, Stream stream = nullptr);

  /// Finds the blocks that attention() of the same arguments visits, or attention_backward(), for AttentionArgs::block_map
  /// (fa2/block_map.h). A map may have both. `block_map` of the arguments is ignored. @throws as attention().
  void map_blocks(const AttentionProblem& problem, const AttentionArgs& args, const BlockMap& map,
                  Stream stream = nullptr);
  void map_blocks(const AttentionProblem& problem, const BackwardArgs& args, const BlockMap& map,
                  Stream stream = nullptr);

  /// Prepares a problem for `device` (-1: the current one; kInterpreterDevice). Every call of the plan must satisfy `options`.
  /// May compile and load, and with TuneMode::now search; no stream may capture meanwhile.
  AttentionPlan plan(const AttentionProblem& problem, int device = -1, const PlanOptions& options = {});

  /// Computes the gradients that `args` point to, as attention() computes the output (fa2/backward.h). @throws as attention().
  void attention_backward(const AttentionProblem& problem, const BackwardArgs& args, Stream stream = nullptr);

  /// Prepares the backward of a problem, as plan() prepares its forward.
  BackwardPlan backward_plan(const AttentionProblem& problem, int device, const Gradients& gradients,
                             const PlanOptions& options = {});

  /// Prepares attention over the tokens of `layout` for this rank of `communicator` (fa2/context_parallel.h). `problem` describes all
  /// tokens: queries and keys are the same ones. With documents it is packed (varlen, total_q and total_k), and `cu_seqlens` says on the
  /// host where documents begin, and where the last one ends. All ranks must call this with the same arguments, which it checks. Returns
  /// when all ranks have their kernels, so that no run waits for a compiler. May compile, load and search as plan() does.
  /// @throws InvalidRequest, on every rank if one rank's request is wrong or differs; CommunicationError if another rank fails; others
  /// as plan().
  ContextParallelPlan context_parallel_plan(const AttentionProblem& problem, const ShardLayout& layout,
                                            Communicator& communicator, const ContextParallelOptions& options,
                                            const std::vector<std::int64_t>& cu_seqlens = {},
                                            int device = -1);

  /// Run the plan that this context made last for the problem and the communicator. The caller must still have a copy of it. They make
  /// no plan, because ranks would wait for each other's compilers. @throws Unavailable without such a plan; others as
  /// ContextParallelPlan::run().
  void context_parallel_attention(const AttentionProblem& problem, const AttentionArgs& args,
                                  Communicator& communicator, Stream stream = nullptr);
  void context_parallel_attention_backward(const AttentionProblem& problem, const BackwardArgs& args,
                                           Communicator& communicator, Stream stream = nullptr);

  /// Prepares attention of queries over sharded keys (fa2/context_parallel.h). Only seqlen_k, total_k and page_count of `problem` may
  /// differ between ranks. heads_q must be a multiple of the number of ranks. @throws as context_parallel_plan().
  ContextParallelDecodePlan context_parallel_decode_plan(const AttentionProblem& problem,
                                                         Communicator& communicator,
                                                         const PlanOptions& options = {}, int device = -1);

  /// Writes which probabilities dropout keeps (1) or drops (0), for tests, on the current device. `mask` must be contiguous
  /// (batch, heads_q, seqlen_q, seqlen_k); no other field of the problem matters. With varlen, entry (b, h, i, j) belongs to
  /// query i and key j of sequence b, whatever its length. Hidden keys have an entry too. Thread-safe. @throws as attention().
  void dropout_mask(const AttentionProblem& problem, const Dropout& dropout, std::uint8_t* mask,
                    Stream stream = nullptr);

  /// Merges attention over disjoint sets of keys into attention over all of them (fa2/merge.h), on the current device.
  /// Thread-safe. While `stream` captures, merge() must already have run with this dtype, head dim and alignment.
  /// @throws as attention().
  void merge(const MergeProblem& problem, const MergeArgs& args, Stream stream = nullptr);

  /// Appends keys and values to a cache, and applies rotary embedding to keys and queries (fa2/append.h), on the current device.
  /// Thread-safe. While `stream` captures, append() must already have run with this dtype, head dims and alignment.
  /// @throws as attention().
  void append(const AppendProblem& problem, const AppendArgs& args, Stream stream = nullptr);

  /// Returns what would run for `problem` on an arch ("sm_90a"), without a GPU. Compiles a kernel that no cache holds.
  Explanation explain(const AttentionProblem& problem, const std::string& arch,
                      const PlanOptions& options = {});

  /// Like explain(), for a backward: reports every kernel of its plan.
  Explanation explain_backward(const AttentionProblem& problem, const std::string& arch,
                               const Gradients& gradients, const PlanOptions& options = {});

  /// Searches configurations for one problem on `device` (-1: the current one) and stores the tuning record. TuneScope::all
  /// measures all candidates within 1.1x of the best to the end, TuneScope::likely the 4 fastest. Ends this context's measurements
  /// in the background for good, because two would disturb each other. If the plan widens 8-bit keys and values first, searches the
  /// kernel of its second step, whose problem has KvType::scaled.
  TuneReport tune(const AttentionProblem& problem, int device = -1, TuneScope scope = TuneScope::likely,
                  const PlanOptions& options = {});

  /// Like tune(), for a backward: searches each kernel of its plan that has more than one configuration, in launch order. Each
  /// search has the whole budget. @throws InvalidRequest for bitwise gradients, which ignore tuning records.
  std::vector<TuneReport> tune_backward(const AttentionProblem& problem, int device,
                                        const Gradients& gradients, TuneScope scope = TuneScope::likely,
                                        const PlanOptions& options = {});

  /// Fills a cache directory, or writes a pack, for deployment. Needs NVRTC, but neither a GPU nor a driver. If a compiler refuses a
  /// kernel, makes the next choice. A kernel that fails does not throw: its row carries the error. A pack is written when all others
  /// are made. It has the same bytes on every machine with this library and this NVRTC, because no cache is read for it.
  std::vector<PrecompiledKernel> precompile(const std::vector<AttentionProblem>& problems,
                                            const std::vector<std::string>& archs,
                                            const PrecompileOptions& options = {});

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Calls Context::default_context().attention().
FA2_API void attention(const AttentionProblem& problem, const AttentionArgs& args, Stream stream = nullptr);
/// Call Context::default_context().map_blocks().
FA2_API void map_blocks(const AttentionProblem& problem, const AttentionArgs& args, const BlockMap& map,
                        Stream stream = nullptr);
FA2_API void map_blocks(const AttentionProblem& problem, const BackwardArgs& args, const BlockMap& map,
                        Stream stream = nullptr);

/// Calls Context::default_context().dropout_mask().
FA2_API void dropout_mask(const AttentionProblem& problem, const Dropout& dropout, std::uint8_t* mask,
                          Stream stream = nullptr);

/// Calls Context::default_context().precompile().
FA2_API std::vector<PrecompiledKernel> precompile(const std::vector<AttentionProblem>& problems,
                                                  const std::vector<std::string>& archs,
                                                  const PrecompileOptions& options = {});

/// Returns the library's version: "0.1.0".
FA2_API const char* version();

}  // namespace fa2
