// What rules of problems and of arguments share.
#pragma once

#include <fa2/args.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/enum_words.h>

#include <vector>

namespace fa2 {

using Violations = std::vector<Violation>;

/// Of dropout's numbers, but for where the state lies.
void check_dropout(Violations& found, const AttentionProblem& problem, const Dropout& dropout);

template <class Enum>
void check_enum(Violations& found, const char* field, Enum value) {
  if (!is_enumerator(value))
    found.push_back({field, fmt::format("{}", static_cast<int>(value)), rule_of<Enum>()});
}

}  // namespace fa2
