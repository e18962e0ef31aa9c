// The table of kernel kinds; the rows stand with their rules.
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <generator/rules/forward_sm80.h>
#include <generator/rules/forward_sm90.h>

#include <algorithm>

namespace fa2 {
namespace {

constexpr const KernelKind* kKinds[] = {&kForwardSm80, &kForwardSm90};

}  // namespace

const Tunable* KernelKind::tunable(std::string_view wanted) const {
  const auto found = std::ranges::find(tunables, wanted, &Tunable::name);
  return found == tunables.end() ? nullptr : &*found;
}

std::span<const KernelKind* const> kernel_kinds() {
  return kKinds;
}

const KernelKind* find_kind(const KernelConfig& config) {
  for (const KernelKind* kind : kKinds) {
    if (kind->mainloop == config.mainloop) return kind;
  }
  return nullptr;
}

std::string known_kinds_rule() {
  std::string rule = "must be ";
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    const char* separator = i == 0 ? "" : i + 1 < std::size(kKinds) ? ", " : " or ";
    rule += fmt::format("{}{}", separator, kKinds[i]->mainloop);
  }
  return rule;
}

const KernelKind& kind_of(const KernelConfig& config) {
  if (const KernelKind* kind = find_kind(config)) return *kind;
  throw InvalidRequest({{"mainloop", std::to_string(config.mainloop), known_kinds_rule()}});
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
