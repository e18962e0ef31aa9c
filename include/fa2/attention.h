// fa2: fused attention kernels, rendered, compiled (NVRTC), cached and tuned at run time.
//
//   fa2::AttentionProblem problem;
//   problem.dtype = fa2::DType::bf16;
//   problem.mask = fa2::MaskKind::causal_bottom_right;
//   problem.head_dim = 128;
//   problem.batch = 2, problem.heads_q = 32, problem.heads_kv = 8;
//   problem.seqlen_q = problem.seqlen_k = 4096;
//   fa2::attention(problem, fa2::bshd_args(problem, q, k, v, o), stream);
#pragma once

#include <fa2/args.h>
#include <fa2/config.h>
#include <fa2/errors.h>
#include <fa2/plan_options.h>
#include <fa2/problem.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fa2 {

struct AppendArgs;
struct AppendProblem;
struct BackwardArgs;
struct Gradients;
struct MergeArgs;
struct MergeProblem;
class BackwardPlan;

/// Where a kernel's binary came from.
enum class KernelOrigin : std::uint8_t { memory, read_only_cache, disk_cache, compiled };
/// Who chose the configuration. The `tuned_*` values say how well the tuning record matched. `fallback`: nothing
/// may be compiled, no cache holds the kernel of the one that was chosen, and a cached kernel most like it runs.
enum class ConfigOrigin : std::uint8_t {
  pinned,
  tuned_now,
  tuned_exact,
  tuned_nearest,
  tuned_other_device,
  heuristic,
  fallback
};

FA2_API std::string_view to_string(KernelOrigin);
FA2_API std::string_view to_string(ConfigOrigin);

/// What one kernel costs, as ptxas reported it.
struct KernelResources {
  std::int32_t registers = 0;             ///< per thread
  std::int32_t spill_store_bytes = 0;     ///< per thread; fa2 refuses kernels that spill
  std::int32_t spill_load_bytes = 0;      ///< per thread
  std::int32_t stack_bytes = 0;           ///< per thread
  std::int32_t static_shared_bytes = 0;   ///< per block
  std::int32_t dynamic_shared_bytes = 0;  ///< per block
  std::int32_t threads = 0;               ///< per block
};

/// One part of a kernel's key, as `fa2 explain` prints it.
struct KeyPart {
  std::string name;
  std::string value;
};

/// One kernel that a plan launches, and why it is this one.
struct KernelReport {
  KernelConfig config;
  ConfigOrigin config_origin = ConfigOrigin::heuristic;
  std::string config_reason;  ///< one sentence
  std::string key;            ///< 32 hex digits
  std::vector<KeyPart> key_parts;
  KernelOrigin origin = KernelOrigin::memory;
  std::string path;       ///< cache file; empty if the binary lives in memory only
  std::string compiler;   ///< "nvrtc 13.0"
  double compile_ms = 0;  ///< of the compilation that made the binary, whenever that was
  double load_ms = 0;     ///< reading (or compiling) and loading it this time
  std::size_t binary_bytes = 0;
  KernelResources resources;
  std::int32_t blocks_per_sm = 0;  ///< resident blocks per SM by registers, shared memory and threads
};

/// What runs for this problem, and why.
struct Explanation {
  AttentionProblem problem;
  PlanOptions options;                ///< what the plan counts on
  std::string arch;                   ///< "sm_90a"
  std::string device;                 ///< device name; empty when asked for an arch without a device
  std::vector<KernelReport> kernels;  ///< in the order of their launches; of a forward one
  std::string notes;  ///< anything that differs from the default path, and why; empty otherwise
};

/// A problem made ready on one device: configuration chosen, kernel compiled and loaded.
/// Immutable, cheap to copy, usable from any thread.
///
/// A CUDA graph may capture launches; it owns nothing of what they use, which is fixed when they are captured. Launch
/// it only as long as all of this is there:
///   - the plan, a copy of it or the Context that made it: with the last of them the kernel is unloaded, and what the
///     Context lent is freed;
///   - the memory that the arguments point to, the workspace included.
/// Destroy it at any time before the library is unloaded. Two executable graphs made of one capture use the same
/// memory: do not let them run at the same time.
///
/// A captured launch that needs a workspace and is given none holds one of 2^18 that its Context has for each device,
/// until the graph and all that was cloned or instantiated from it are destroyed and have run.
class FA2_API AttentionPlan {
 public:
  /// Validates the arguments and launches. No synchronisation; no lock and no allocation, except for launches that need a
  /// workspace and are given none, where they are captured or split keys (whose parts then lie in a stream-ordered pool of the
  /// Context), and for what FA2_CHECK=1 looks at (AttentionArgs::cu_seqlens_q).
  /// @throws InvalidRequest listing everything wrong with the arguments (nothing launched), CudaError; Unavailable
  /// if graphs hold all of the Context's workspaces.
  void run(const AttentionArgs& args, Stream stream = nullptr) const;

  /// How many bytes AttentionArgs::workspace has, if it is given: a multiple of 256; 0 if no launch needs any.
  std::size_t workspace_bytes() const;
  /// How many of them, the first ones, have to be zeros; the others may hold anything.
  std::size_t workspace_zeros() const;

  const AttentionProblem& problem() const;
  const Explanation& explain() const;

  struct Impl;
  explicit AttentionPlan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

enum class TuneMode : std::uint8_t {
  off,     ///< heuristic only
  stored,  ///< stored records, the user's before those that ship with the library; else heuristic
  search   ///< an exact record, either's; else measure candidates once per bucket of problems (default)
};
enum class JitMode : std::uint8_t {
  on,  ///< compile what no cache holds (default)
  off,  ///< a cached kernel like it runs; without one, an Unavailable error names the command which would build it
};

/// Settings of a Context. Whatever is unset comes from its environment variable, then from the default.
struct ContextOptions {
  std::optional<std::string> cache_dir;                      ///< FA2_CACHE_DIR, $XDG_CACHE_HOME/fa2
  std::optional<std::vector<std::string>> read_only_caches;  ///< FA2_CACHE_PATH, ':' separated
  std::optional<TuneMode> tune;                              ///< FA2_TUNE
  std::optional<std::int64_t> tune_budget_ms;                ///< FA2_TUNE_BUDGET_MS, 3000
  std::optional<KernelConfig> config;                        ///< FA2_CONFIG: pins the kernels of its pass
  std::optional<JitMode> jit;                                ///< FA2_JIT
};

/// One kernel made by precompile().
struct PrecompiledKernel {
  AttentionProblem problem;
  PlanOptions options;  ///< of the plans that it is for
  std::string arch;
  std::string key;
  KernelConfig config;
  std::string config_reason;  ///< one sentence
  KernelResources resources;
  std::size_t binary_bytes = 0;
  double compile_ms = 0;
  KernelOrigin origin = KernelOrigin::compiled;
  std::string error;  ///< empty when the kernel is in the cache now
};

/// Told of each kernel as precompile() finishes it: from any thread, one call at a time.
class FA2_API PrecompileObserver {
 public:
  virtual ~PrecompileObserver() = default;
  virtual void finished(const PrecompiledKernel& kernel, std::size_t done, std::size_t total) = 0;
};

/// Which kernels precompile() makes for a problem.
enum class PrecompileScope : std::uint8_t {
  any_size,  ///< all that its dtype, head dims, mask and variants run with, whatever its batch, heads and lengths
             ///< are: what the heuristic and the tuning records can ask for (default)
  given_sizes  ///< the one that this problem runs with on a GPU that nothing was measured on
};

/// append() and merge() have one kernel each of a dtype, head dims and alignment; all else is a parameter of theirs.
struct PrecompileOptions {
  std::string out;  ///< directory to fill, readable by every user; empty: the context's own
  int jobs = 0;     ///< compiling threads; 0: one per core
  PrecompileScope scope = PrecompileScope::any_size;
  std::vector<PlanOptions> plans =
      std::vector<PlanOptions>(1);  ///< of each problem, a plan with each of these
  bool backward = false;            ///< also their backward, whichever gradients are wanted
  bool append = false;              ///< also the kernel of append() to caches of their K and V (fa2/append.h)
  bool merge = false;               ///< also that of merge() of parts of their O (fa2/merge.h)
  PrecompileObserver* observer = nullptr;  ///< not owned
};

/// Which configurations a search looks at.
enum class TuneScope : std::uint8_t {
  likely,  ///< the heuristic's choice and the valid ones most like it, 24 in all (default)
  all      ///< every valid one, likely ones first: hundreds, which takes a budget of minutes
};

/// One configuration that a search looked at.
struct TuneCandidate {
  KernelConfig config;
  double median_us = 0;  ///< 0 if it was never timed
  int samples = 0;
  std::string dropped;  ///< why it left the race; empty for the finalists
};

struct TuneReport {
  AttentionProblem problem;
  PlanOptions options;  ///< of the plans that the record is for
  std::string bucket;
  KernelConfig best;
  double best_us = 0;
  double heuristic_us = 0;
  double seconds = 0;
  bool budget_spent = false;  ///< the search ended because time was up
  /// First those that stayed to the end, fastest first; then the others, those with most samples first.
  /// Medians compare only among equal numbers of samples: the GPU's clock drifts.
  std::vector<TuneCandidate> candidates;
};

/// Owns the kernel caches, the tuning records and the memo of plans. Thread-safe. Contexts are independent of
/// each other.
class FA2_API Context {
 public:
  explicit Context(const ContextOptions& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The context that the free functions use; made on first use from the environment.
  static Context& default_context();

  /// Memoised plan + run on the current CUDA device (device 0's primary context if no context is current); on
  /// the interpreter if there is no GPU or FA2_DEVICE=interpreter. The plan's options are what holds of the arguments:
  /// where rows are not 16-byte aligned, the plan of RowAlignment::element runs. For a problem in steady use no
  /// allocation, and a shared lock.
  /// @throws InvalidRequest, CompileError, CudaError, Unavailable. While `stream` is capturing, a problem that
  /// has no plan yet is an Unavailable error: make the plan first.
  void attention(const AttentionProblem& problem, const AttentionArgs& args, Stream stream = nullptr);

  /// Makes a problem ready on `device` (-1: the current one; kInterpreterDevice), for calls that keep what `options`
  /// promise. May compile, load and search; never while a stream captures.
  AttentionPlan plan(const AttentionProblem& problem, int device = -1, const PlanOptions& options = {});

  /// The gradients of attention(), the same way (fa2/backward.h): of those that `args` point to. @throws as attention().
  void attention_backward(const AttentionProblem& problem, const BackwardArgs& args, Stream stream = nullptr);

  /// Makes the backward of a problem ready, as plan() does its forward.
  BackwardPlan backward_plan(const AttentionProblem& problem, int device, const Gradients& gradients,
                             const PlanOptions& options = {});

  /// Which probabilities dropout keeps, for tests, on the current device: `mask` is contiguous (batch, heads_q, seqlen_q,
  /// seqlen_k), 1 where one is kept. Of the problem those four count alone. With varlen, entry (b, h, i, j) is of query i and
  /// key j of sequence b, whatever its length. Hidden keys have one too. Thread-safe.
  /// @throws as attention().
  void dropout_mask(const AttentionProblem& problem, const Dropout& dropout, std::uint8_t* mask,
                    Stream stream = nullptr);

  /// Attention over parts of the keys merged to that over all (fa2/merge.h), on the current device. Thread-safe. While `stream`
  /// captures, of a dtype, head dim and alignment that were merged before. @throws as attention().
  void merge(const MergeProblem& problem, const MergeArgs& args, Stream stream = nullptr);

  /// New keys and values into a cache, turned by rotary embedding as queries are (fa2/append.h), on the current device.
  /// Thread-safe. While `stream` captures, of a dtype, head dims and alignment that were appended before.
  /// @throws as attention().
  void append(const AppendProblem& problem, const AppendArgs& args, Stream stream = nullptr);

  /// What would run for `problem` on an arch ("sm_90a"), without a GPU. Compiles if no cache holds the
  /// kernel.
  Explanation explain(const AttentionProblem& problem, const std::string& arch,
                      const PlanOptions& options = {});

  /// The same of a backward: every kernel of its plan.
  Explanation explain_backward(const AttentionProblem& problem, const std::string& arch,
                               const Gradients& gradients, const PlanOptions& options = {});

  /// Searches configurations for one problem on `device` (-1: the current one) and stores the record. With
  /// TuneScope::all everything within 1.1x of the best is measured to the end, not the 4 fastest alone.
  TuneReport tune(const AttentionProblem& problem, int device = -1, TuneScope scope = TuneScope::likely,
                  const PlanOptions& options = {});

  /// The same of a backward: a search, and a record, for each kernel of its plan that has more than one configuration, in the
  /// order of their launches. Each takes a budget of its own. @throws InvalidRequest of bitwise gradients, which follow no
  /// measurement.
  std::vector<TuneReport> tune_backward(const AttentionProblem& problem, int device,
                                        const Gradients& gradients, TuneScope scope = TuneScope::likely,
                                        const PlanOptions& options = {});

  /// Fills a cache directory for deployment. Needs NVRTC, no GPU and no driver. Where a compiler refuses a
  /// kernel, the next choice is made. Never throws for a kernel that fails: its row carries the error.
  std::vector<PrecompiledKernel> precompile(const std::vector<AttentionProblem>& problems,
                                            const std::vector<std::string>& archs,
                                            const PrecompileOptions& options = {});

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Context::default_context().attention(...).
FA2_API void attention(const AttentionProblem& problem, const AttentionArgs& args, Stream stream = nullptr);

/// Context::default_context().dropout_mask(...).
FA2_API void dropout_mask(const AttentionProblem& problem, const Dropout& dropout, std::uint8_t* mask,
                          Stream stream = nullptr);

/// Context::default_context().precompile(...).
FA2_API std::vector<PrecompiledKernel> precompile(const std::vector<AttentionProblem>& problems,
                                                  const std::vector<std::string>& archs,
                                                  const PrecompileOptions& options = {});

/// "0.1.0"
FA2_API const char* version();

}  // namespace fa2
