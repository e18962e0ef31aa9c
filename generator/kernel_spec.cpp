// Traits of a problem.
#include <generator/kernel_spec.h>

#include <optional>

namespace fa2 {
namespace {

template <class Value>
void forget(Value& size, const Value& usual, std::int64_t) {
  size = usual;
}

/// Keeps whether the size is given. `least`: its smallest value.
template <class Value>
void forget(std::optional<Value>& size, const std::optional<Value>&, std::int64_t least) {
  if (size) size = least;
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
  each_row<AttentionProblem>([&](const auto& row) {
    if (row.text.role == FieldRole::sizes) forget(traits.*row.member, kUsual.*row.member, row.text.least);
  });
  return traits;
}

bool has_edges(const AttentionProblem& p) {
  return p.mask != MaskKind::none || p.window_left || p.window_right || p.attention_chunk;
}

}  // namespace fa2
