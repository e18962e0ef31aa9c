// What a plan may assume about its calls, in addition to the problem.
#pragma once

#include <fa2/row.h>
#include <fa2/types.h>

namespace fa2 {

/// What every call of a plan guarantees. Options select kernels; they do not change results.
///
/// One member, one row: comparison, keys, tuning buckets, JSON and flags follow from it.
struct PlanOptions {
  RowAlignment row_alignment = RowAlignment::bytes16;

  template <class Take>
  static constexpr auto rows(const Take& take) {
    return take(row("row_alignment", &PlanOptions::row_alignment).help("what every row is aligned to"));
  }

  /// Calls field(name, value...) for each field in order, with its values in all of `options`.
  template <class Field, class... Options>
  static constexpr void visit(Field&& field, Options&... options) {
    each_row<PlanOptions>([&](const auto& row) { field(row.text.name, options.*row.member...); });
  }

  friend bool operator==(const PlanOptions& a, const PlanOptions& b) {
    bool equal = true;
    visit([&](const char*, const auto& x, const auto& y) { equal = equal && x == y; }, a, b);
    return equal;
  }
  friend bool operator!=(const PlanOptions& a, const PlanOptions& b) { return !(a == b); }
};

}  // namespace fa2
