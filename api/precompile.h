// Fills a cache without a GPU: problems and archs become distinct kernels, kernels become files.
#pragma once

#include <api/requests.h>
#include <autotune/config_choice.h>
#include <fa2/attention.h>
#include <runtime/kernel_cache.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fa2 {

/// A kernel that precompile() will make.
struct KernelRequest {
  /// Problem, options, arch, key and config; or the error that prevents the kernel.
  PrecompiledKernel row;
  ConfigChoice choice;                     ///< unset if there is an error
  std::vector<ConfigChoice> alternatives;  ///< tried in this order if the chosen kernel is refused
};

struct KernelRequests {
  /// Distinct kernels, in the order in which archs, then problems, then plans first need them.
  std::vector<KernelRequest> kernels;
  std::vector<TuningRecord> records;  ///< the tuning records from which the configs came
};

/// Returns the requests for these problems on these archs, with `plans`, `backward`, `append` and `merge` of `options`, then those
/// in `options.requests`. @throws InvalidRequest with everything wrong with problems, plans, archs and the file; CacheError.
std::vector<PlanRequest> requests_for(const std::vector<AttentionProblem>& problems,
                                      const std::vector<std::string>& archs,
                                      const PrecompileOptions& options);

/// Returns the kernels of the requests. Uses `scope`, `shard` and `shards` of `options`. @throws InvalidRequest.
KernelRequests kernel_requests(const std::vector<PlanRequest>& requests, const PrecompileOptions& options,
                               ConfigChooser& chooser);

/// Returns the kernels of requests_for(), as above.
KernelRequests kernel_requests(const std::vector<AttentionProblem>& problems,
                               const std::vector<std::string>& archs, const PrecompileOptions& options,
                               ConfigChooser& chooser);

/// Gets the kernel from `cache`, or the first of its alternatives that compiles. The row says which, or why there is none.
/// @throws Interrupted.
PrecompiledKernel make_kernel(const KernelRequest& request, KernelCache& cache);

/// Makes the kernels on `jobs` threads (0: one per core), and returns one row per request. `cache` must have a store.
std::vector<PrecompiledKernel> make_kernels(const std::vector<KernelRequest>& requests, KernelCache& cache,
                                            int jobs, PrecompileObserver* observer);

/// Adds the records that the store lacks, so that a machine with this cache chooses the same kernels.
void export_records(const std::vector<TuningRecord>& records, TuningStore& store);

/// Makes the kernels and writes them to the pack `options.out`, with their records. @throws FileError before minutes of compiling
/// if the pack cannot be written.
std::vector<PrecompiledKernel> make_pack(const KernelRequests& requests, std::shared_ptr<Compiler> compiler,
                                         const PrecompileOptions& options);

}  // namespace fa2
