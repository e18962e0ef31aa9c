// What precompiling would make, before a compiler is asked.
#pragma once

#include <api/precompile.h>

#include <cstddef>
#include <string>
#include <vector>

namespace fa2::tools {

/// The kernels of one arch.
struct Estimate {
  std::string arch;
  std::size_t kernels = 0;
  double bytes = 0;    ///< of binaries
  double seconds = 0;  ///< of compiling, on one core
};

/// Says where the means come from.
inline constexpr const char* kEstimateSource =
    "Sizes and times are estimates: means per kind of kernel, fp16, head dims 64 and 128, compiled by NVRTC "
    "13.0 "
    "on one core of an AMD EPYC.";

/// Returns one estimate an arch, in order of appearance. Requests that carry an error count as no kernel.
std::vector<Estimate> estimates_of(const std::vector<KernelRequest>& requests);

}  // namespace fa2::tools
