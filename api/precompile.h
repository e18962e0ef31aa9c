// Fills a cache without a GPU: problems and archs become distinct kernels, kernels become files.
#pragma once

#include <autotune/config_choice.h>
#include <fa2/attention.h>
#include <runtime/kernel_cache.h>

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

/// Uses `scope`, `plans`, `backward`, `append` and `merge` of `options`. @throws InvalidRequest with everything wrong with
/// problems, plans and archs.
KernelRequests kernel_requests(const std::vector<AttentionProblem>& problems,
                               const std::vector<std::string>& archs, const PrecompileOptions& options,
                               ConfigChooser& chooser);

/// Makes the kernels on `jobs` threads (0: one per core), and returns one row per request. `cache` must have a directory.
std::vector<PrecompiledKernel> make_kernels(const std::vector<KernelRequest>& requests, KernelCache& cache,
                                            int jobs, PrecompileObserver* observer);

/// Adds the records that the store lacks, so that a machine with this cache chooses the same kernels.
void export_records(const std::vector<TuningRecord>& records, TuningStore& store);

}  // namespace fa2
