// Checks that rules of problems and of arguments share.
#pragma once

#include <core/enum_words.h>
#include <fa2/args.h>
#include <fa2/errors.h>
#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace fa2 {

using Violations = std::vector<Violation>;

/// Checks dropout's numbers. The operand checks look at the pointer to the state.
void check_dropout(Violations& found, const AttentionProblem& problem, const Dropout& dropout);

/// Whether kernels have it, and the rule in words.
bool is_head_dim(std::int32_t dim);
inline constexpr const char* kHeadDimRule = "must be a multiple of 8 in 8..256";

template <class Enum>
void check_enum(Violations& found, const char* field, Enum value) {
  if (!is_enumerator(value))
    found.push_back({field, fmt::format("{}", static_cast<int>(value)), rule_of<Enum>()});
}

}  // namespace fa2
