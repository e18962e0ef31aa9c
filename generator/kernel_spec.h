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

/// A problem and the options of its plan: kernels are chosen, tuned and compiled for both. There is no conversion from
/// AttentionProblem: every caller must state its options.
struct PlannedProblem : AttentionProblem, PlanOptions {
  PlannedProblem() = default;
  PlannedProblem(const AttentionProblem& problem, const PlanOptions& options)
      : AttentionProblem(problem), PlanOptions(options) {}

  /// Calls field(name, role, value...) for each field of both. The options follow the mask, as in names, records
  /// and rendered kernels.
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

/// Returns the problem's text, followed by the options that are not the defaults: "... seqlen 4096x4096 element".
std::string to_string(const PlannedProblem& problem);

/// The part of a problem that specialises the binary: normalized, with its options, and with default sizes; an optional size that
/// is given becomes its smallest value.
class AttentionTraits : public PlannedProblem {
 public:
  AttentionTraits() = default;
  friend AttentionTraits traits_of(const PlannedProblem& problem);

 private:
  explicit AttentionTraits(const PlannedProblem& problem) : PlannedProblem(problem) {}
};

AttentionTraits traits_of(const PlannedProblem& problem);

/// Returns whether queries see different keys, so that some rows of a tile do not see its first or last KV blocks.
bool has_edges(const AttentionProblem& problem);

template <class Value>
inline constexpr bool kIsOptional = false;
template <class Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;

/// Whether a field is a variant: a problem has it or not, and its size or numbers are no trait.
template <class Value>
inline constexpr bool kIsVariant = kIsOptional<Value> || std::is_same_v<Value, bool>;

/// Whether a field chooses among forms of which most problems have the first.
template <class Value>
inline constexpr bool kIsChoice = std::is_same_v<Value, KvType> || std::is_same_v<Value, LseBase>;

/// Calls field(name, value...) for each trait of `problems`. The value of an optional size is whether it is given.
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

/// Returns "f16_d128_causal_bottom_right", with _v<dim>, _element and _any_order if they are not the defaults.
std::string to_string(const AttentionTraits& traits);

struct KernelSpec {
  AttentionTraits traits;
  KernelConfig config;
  Arch arch;
};

}  // namespace fa2
