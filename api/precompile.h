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
  PrecompiledKernel row;  ///< problem, arch, key and config; or the error that keeps it from being made
  ConfigChoice choice;    ///< unless there is an error
  std::vector<ConfigChoice> alternatives;  ///< for when the chosen one's kernel is refused
};

struct KernelRequests {
  std::vector<KernelRequest>
      kernels;  ///< distinct; in order of archs, then of the first problem that needs each
  std::vector<TuningRecord> records;  ///< the tuning records that their configs came from
};

/// @throws InvalidRequest listing everything wrong with the problems and archs.
KernelRequests kernel_requests(const std::vector<AttentionProblem>& problems,
                               const std::vector<std::string>& archs, PrecompileScope scope,
                               ConfigChooser& chooser);

/// Makes them on `jobs` threads (0: one per core); rows in the requests' order. `cache` has a directory of
/// its own.
std::vector<PrecompiledKernel> make_kernels(const std::vector<KernelRequest>& requests, KernelCache& cache,
                                            int jobs, PrecompileObserver* observer);

/// Adds the records that the store lacks, so that a machine with this cache chooses the same kernels.
void export_records(const std::vector<TuningRecord>& records, TuningStore& store);

}  // namespace fa2
