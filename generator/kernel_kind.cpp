// The table of kernel kinds, which are defined in generator/kernels.
#include <fmt/format.h>
#include <generator/kernel_kind.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <templates/attention/common/tile_schedule.cuh>

namespace fa2 {
namespace {

#define FA2_ADDRESS(name) &kernels::name,
constexpr const KernelKind* kKinds[] = {FA2_KERNELS(FA2_ADDRESS)};
#undef FA2_ADDRESS

}  // namespace

const Tunable* KernelKind::tunable(std::string_view wanted) const {
  const auto found = std::ranges::find(tunables, wanted, &Tunable::name);
  return found == tunables.end() ? nullptr : &*found;
}

std::span<const KernelKind* const> kernel_kinds() {
  return kKinds;
}

const KernelKind& kind_of(KernelId kernel) {
  if (is_enumerator(kernel)) return *kKinds[static_cast<std::size_t>(kernel)];
  throw InvalidRequest({{"kernel", std::to_string(static_cast<std::int32_t>(kernel)), rule_of<KernelId>()}});
}

std::string rule_of(const HeadDims& dims) {
  return fmt::format("must be a multiple of 8 in {}..{}", dims.least, dims.most);
}

HeadDims head_dims_of(KernelPass pass, HeadDims KernelKind::*dims) {
  HeadDims all{.least = std::numeric_limits<std::int32_t>::max(), .most = 0};
  for (const KernelKind* kind : kKinds) {
    if (kind->pass != pass) continue;
    all.least = std::min(all.least, (kind->*dims).least);
    all.most = std::max(all.most, (kind->*dims).most);
  }
  return all;
}

bool splits_keys(const KernelConfig& config) {
  return config.schedule == kSplitKeys || config.kernel == KernelId::forward_split;
}

bool is_persistent(const KernelConfig& config) {
  return config.schedule != kOneTileEach || splits_keys(config);
}

std::int32_t neutral_value(std::string_view field) {
  constexpr KernelConfig kNeutral;
  std::int32_t neutral = 0;
  KernelConfig::visit(kNeutral, [&](std::string_view name, std::int32_t value) {
    if (name == field) neutral = value;
  });
  return neutral;
}

}  // namespace fa2
