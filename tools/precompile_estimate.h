// Estimates of precompiling, without a compiler.
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
  double bytes = 0;    ///< bytes of all binaries
  double seconds = 0;  ///< compile time on one core; s
};

/// The origin of the means.
inline constexpr const char* kEstimateSource =
    "Sizes and times are estimates: means per kind of kernel, fp16, head dims 64 and 128, or 320 and 512 of "
    "wide ones, compiled by NVRTC 13.0 on one core of an AMD EPYC.";

/// Returns one estimate per arch, in order of appearance. Requests with an error do not count.
std::vector<Estimate> estimates_of(const std::vector<KernelRequest>& requests);

}  // namespace fa2::tools
