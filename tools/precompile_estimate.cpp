// Means over compiled kernels.
#include <fa2/config.h>
#include <tools/precompile_estimate.h>

#include <algorithm>

namespace fa2::tools {
namespace {

struct Mean {
  KernelId kernel;
  double kilobytes, seconds;
};

// Means for `fa2 precompile --arch sm_80,sm_90a --head-dim 64,128 --dtype f16 --backward --append --merge`,
// with NVRTC 13.0 on one core of an AMD EPYC: cubin size and processor time.
constexpr Mean kMeans[] = {
    {KernelId::forward_sm80, 39, 0.7},
    {KernelId::forward_wide, 78, 0.6},  // head dims 320 and 512, as the next
    {KernelId::forward_wide_sm90, 100, 1.1},
    {KernelId::forward_split, 73, 1.5},
    {KernelId::forward_sm90, 75, 1.6},
    {KernelId::backward_delta, 13, 0.1},
    {KernelId::backward_dq_sm80, 33, 0.4},
    {KernelId::backward_dk_dv_sm80, 42, 0.6},
    {KernelId::backward_dk_sm80, 40, 0.5},
    {KernelId::backward_dv_sm80, 33, 0.5},
    {KernelId::backward_sm80, 60, 0.9},
    {KernelId::backward_sm90, 48, 1.0},
    {KernelId::backward_ordered_sm90, 50, 1.2},
    {KernelId::merge, 28, 0.2},
    {KernelId::append, 20, 0.1},
};
constexpr Mean kSmall = {{}, 14, 0.1};  // conversions, gradients of sinks

const Mean& mean_of(const KernelConfig& config) {
  const auto* found = std::ranges::find(kMeans, config.kernel, &Mean::kernel);
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
