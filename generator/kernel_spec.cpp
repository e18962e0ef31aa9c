// Traits of a problem.
#include <generator/kernel_spec.h>

#include <optional>

namespace fa2 {
namespace {

template <class Value>
void forget(Value& size, const Value& usual) {
  size = usual;
}

/// Keeps whether the size is given.
template <class Value>
void forget(std::optional<Value>& size, const std::optional<Value>&) {
  if (size) size = Value{};
}

}  // namespace

std::size_t hash_value(const PlannedProblem& problem) {
  std::size_t hash = hash_value(static_cast<const AttentionProblem&>(problem));
  PlanOptions::visit(
      [&](const char*, const auto& value) { hash = 31 * hash + static_cast<std::size_t>(value); }, problem);
  return hash;
}

AttentionTraits traits_of(const PlannedProblem& problem) {
  constexpr AttentionProblem kUsual;
  AttentionTraits traits(problem.normalized());
  AttentionProblem::visit(
      [](const char*, FieldRole role, auto& value, const auto& usual) {
        if (role == FieldRole::sizes) forget(value, usual);
      },
      traits, kUsual);
  return traits;
}

bool has_edges(const AttentionProblem& p) {
  return p.mask != MaskKind::none || p.window_left || p.window_right;
}

}  // namespace fa2
