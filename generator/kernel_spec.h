// The identity of a compiled kernel: what it computes (traits), how (config), and for which GPU (arch).
#pragma once

#include <core/arch.h>
#include <fa2/config.h>
#include <fa2/plan_options.h>
#include <fa2/problem.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace fa2 {

/// A problem, and what its plan may count on: what kernels are chosen, tuned and compiled for. No problem becomes one
/// without its options: nothing is promised by leaving them out.
struct PlannedProblem : AttentionProblem, PlanOptions {
  PlannedProblem() = default;
  PlannedProblem(const AttentionProblem& problem, const PlanOptions& options)
      : AttentionProblem(problem), PlanOptions(options) {}

  /// Calls field(name, role, value...) for each field of both. The options follow the mask: names, records and rendered
  /// kernels have them there.
  template <class Field, class... Problem>
  static constexpr void visit(Field&& field, Problem&... problems) {
    AttentionProblem::visit(
        [&](const char* name, FieldRole role, auto&... values) {
          field(name, role, values...);
          if (name != std::string_view("mask")) return;
          PlanOptions::visit(
              [&](const char* option, auto&... chosen) { field(option, FieldRole::specialises, chosen...); },
              problems...);
        },
        problems...);
  }

  PlannedProblem normalized() const { return {AttentionProblem::normalized(), *this}; }

  friend bool operator==(const PlannedProblem&, const PlannedProblem&) = default;
};

std::size_t hash_value(const PlannedProblem& problem);

/// The problem's text, and after it the options that are not the usual ones: "... seqlen 4096x4096 element".
std::string to_string(const PlannedProblem& problem);

/// The part that specialises the binary: a normalized problem whose sizes are at their defaults, 0 where an optional one
/// is given, and its options.
class AttentionTraits : public PlannedProblem {
 public:
  AttentionTraits() = default;
  friend AttentionTraits traits_of(const PlannedProblem& problem);

 private:
  explicit AttentionTraits(const PlannedProblem& problem) : PlannedProblem(problem) {}
};

AttentionTraits traits_of(const PlannedProblem& problem);

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
  PlannedProblem::visit(
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
