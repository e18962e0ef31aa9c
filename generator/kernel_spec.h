// The identity of a compiled kernel: what it computes (traits), how (config), and for which GPU (arch).
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>
#include <generator/arch.h>

#include <optional>
#include <string>
#include <type_traits>

namespace fa2 {

/// The part of a problem that specialises the binary: a normalized problem whose sizes are at their defaults, 0 where
/// an optional one is given.
class AttentionTraits : public AttentionProblem {
 public:
  AttentionTraits() = default;
  friend AttentionTraits traits_of(const AttentionProblem& problem);

 private:
  explicit AttentionTraits(const AttentionProblem& problem) : AttentionProblem(problem) {}
};

AttentionTraits traits_of(const AttentionProblem& problem);

/// Whether queries see different keys: a tile's last or first blocks are not every row's.
bool has_edges(const AttentionProblem& problem);

template <class Value>
inline constexpr bool kIsOptional = false;
template <class Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;

/// Whether a field is a variant: something that a problem has or has not, with a size or with numbers that are
/// arguments.
template <class Value>
inline constexpr bool kIsVariant = kIsOptional<Value> || std::is_same_v<Value, bool>;

/// Calls field(name, value...) for each trait of `problems`: of an optional size, whether it is given.
template <class Field, class... Problem>
constexpr void visit_traits(Field&& field, const Problem&... problems) {
  AttentionProblem::visit(
      [&](const char* name, FieldRole role, const auto&... values) {
        if constexpr ((kIsOptional<std::remove_cvref_t<decltype(values)>> && ...)) {
          field(name, values.has_value()...);
        } else {
          if (role == FieldRole::specialises) field(name, values...);
        }
      },
      problems...);
}

/// "f16_d128_causal_bottom_right", with _v<dim>, _element and _any_order where they differ from the common
/// case.
std::string to_string(const AttentionTraits& traits);

struct KernelSpec {
  AttentionTraits traits;
  KernelConfig config;
  Arch arch;
};

}  // namespace fa2
