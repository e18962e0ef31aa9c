// The table of kernel kinds; the rows stand with their rules.
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <generator/kernels/append.h>
#include <generator/kernels/backward_sm80.h>
#include <generator/kernels/backward_sm90.h>
#include <generator/kernels/backward_sums_sm80.h>
#include <generator/kernels/dropout_mask.h>
#include <generator/kernels/forward_sm80.h>
#include <generator/kernels/forward_sm90.h>
#include <generator/kernels/forward_split.h>
#include <generator/kernels/merge.h>

#include <algorithm>
#include <set>
#include <templates/attention/common/tile_schedule.cuh>

namespace fa2 {
namespace {

constexpr const KernelKind* kKinds[] = {
    &kForwardSm80,     &kForwardSplit,        &kForwardSm90,     &kBackwardDelta,
    &kBackwardQueries, &kBackwardKeys,        &kBackwardDk,      &kBackwardDv,
    &kBackwardSinks,   &kBackwardSm90,        &kBackwardConvert, &kOrderedBackwardSm90,
    &kBackwardSm80,    &kBackwardConvertSm80, &kDropoutMask,     &kMerge,
    &kAppend};

/// "must be 80 or 90", of `member` of the kinds that `is_meant` is true of.
template <class Member, class IsMeant>
std::string rule_of_kinds(const Member& member, const IsMeant& is_meant) {
  std::set<std::int32_t> numbers;
  for (const KernelKind* kind : kKinds) {
    if (is_meant(*kind)) numbers.insert(member(*kind));
  }
  std::string rule = "must be ";
  std::size_t i = 0;
  for (const std::int32_t number : numbers) {
    rule += fmt::format("{}{}", i == 0 ? "" : i + 1 < numbers.size() ? ", " : " or ", number);
    ++i;
  }
  return rule;
}

}  // namespace

const Tunable* KernelKind::tunable(std::string_view wanted) const {
  const auto found = std::ranges::find(tunables, wanted, &Tunable::name);
  return found == tunables.end() ? nullptr : &*found;
}

std::span<const KernelKind* const> kernel_kinds() {
  return kKinds;
}

bool splits_keys(const KernelConfig& config) {
  return config.schedule == kSplitKeys || config.mainloop == kForwardSplit.mainloop;
}

const KernelKind* find_kind(const KernelConfig& config) {
  for (const KernelKind* kind : kKinds) {
    if (kind->mainloop == config.mainloop && static_cast<std::int32_t>(kind->pass) == config.pass)
      return kind;
  }
  return nullptr;
}

std::string known_kinds_rule() {
  return rule_of_kinds([](const KernelKind& kind) { return kind.mainloop; },
                       [](const KernelKind&) { return true; });
}

Violation unknown_kind(const KernelConfig& config) {
  const auto of_its_main_loop = [&](const KernelKind& kind) { return kind.mainloop == config.mainloop; };
  if (!std::ranges::any_of(kKinds, of_its_main_loop,
                           [](const KernelKind* kind) -> const KernelKind& { return *kind; }))
    return {"mainloop", std::to_string(config.mainloop), known_kinds_rule()};
  const std::string passes =
      rule_of_kinds([](const KernelKind& kind) { return static_cast<std::int32_t>(kind.pass); },
                    [&](const KernelKind& kind) { return of_its_main_loop(kind) && is_chosen(kind.pass); });
  return {"pass", std::to_string(config.pass), fmt::format("{} with main loop {}", passes, config.mainloop)};
}

const KernelKind& kind_of(const KernelConfig& config) {
  if (const KernelKind* kind = find_kind(config)) return *kind;
  throw InvalidRequest({unknown_kind(config)});
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
