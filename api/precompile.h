// Filling a cache without a GPU: from problems and archs to distinct kernels, from kernels to files.
#pragma once

#include <autotune/config_choice.h>
#include <fa2/attention.h>
#include <runtime/kernel_cache.h>

#include <optional>
#include <string>
#include <vector>

namespace fa2 {

/// One kernel to make.
struct KernelRequest {
  /// Problem, options, arch, key and config; or the error that keeps it from being made.
  PrecompiledKernel row;
  ConfigChoice choice;                     ///< unless there is an error
  std::vector<ConfigChoice> alternatives;  ///< for when the chosen one's kernel is refused
};

struct KernelRequests {
  /// Distinct; in the order of archs, then of problems, then of plans, the first that needs each.
  std::vector<KernelRequest> kernels;
  std::vector<TuningRecord> records;  ///< the tuning records that their configs came from
};

/// Of `options` the scope, the plans and what is wanted beside the forward. @throws InvalidRequest listing everything wrong with problems, plans and archs.
KernelRequests kernel_requests(const std::vector<AttentionProblem>& problems,
                               const std::vector<std::string>& archs, const PrecompileOptions& options,
                               ConfigChooser& chooser);

/// Makes them on `jobs` threads (0: one per core); rows in the requests' order. `cache` has a directory of
/// its own.
std::vector<PrecompiledKernel> make_kernels(const std::vector<KernelRequest>& requests, KernelCache& cache,
                                            int jobs, PrecompileObserver* observer);

/// Adds the records that the store lacks, so that a machine with this cache chooses the same kernels.
void export_records(const std::vector<TuningRecord>& records, TuningStore& store);

}  // namespace fa2
