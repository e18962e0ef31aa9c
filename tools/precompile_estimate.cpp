// Means over compiled kernels.
#include <fa2/config.h>
#include <generator/kernel_kind.h>
#include <tools/precompile_estimate.h>

#include <algorithm>
#include <string_view>

namespace fa2::tools {
namespace {

struct Mean {
  std::string_view kind;  ///< KernelKind::name
  double kilobytes, seconds;
};

// Means for `fa2 precompile --arch sm_80,sm_90a --head-dim 64,128 --dtype f16 --backward --append --merge`,
// with NVRTC 13.0 on one core of an AMD EPYC: cubin size and processor time.
constexpr Mean kMeans[] = {
    {"forward_sm80", 39, 0.7},     {"forward_split", 73, 1.5},         {"forward_sm90", 75, 1.6},
    {"backward_delta", 13, 0.1},   {"backward_queries_sm80", 33, 0.4}, {"backward_keys_sm80", 42, 0.6},
    {"backward_dk_sm80", 40, 0.5}, {"backward_dv_sm80", 33, 0.5},      {"backward_sm80", 60, 0.9},
    {"backward_sm90", 48, 1.0},    {"ordered_backward_sm90", 50, 1.2}, {"merge", 28, 0.2},
    {"append", 20, 0.1},
};
constexpr Mean kSmall = {"", 14, 0.1};  // conversions, gradients of sinks

const Mean& mean_of(const KernelConfig& config) {
  const auto* found = std::ranges::find(kMeans, kind_of(config).name, &Mean::kind);
  return found == std::end(kMeans) ? kSmall : *found;
}

}  // namespace

std::vector<Estimate> estimates_of(const std::vector<KernelRequest>& requests) {
  std::vector<Estimate> estimates;
  for (const KernelRequest& request : requests) {
    if (estimates.empty() || estimates.back().arch != request.row.arch)
      estimates.push_back({.arch = request.row.arch});
    if (!request.row.error.empty()) continue;
    const Mean& mean = mean_of(request.row.config);
    ++estimates.back().kernels;
    estimates.back().bytes += mean.kilobytes * 1024;
    estimates.back().seconds += mean.seconds;
  }
  return estimates;
}

}  // namespace fa2::tools
