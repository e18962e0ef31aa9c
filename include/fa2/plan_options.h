// What a plan may count on, beside the problem that it computes.
#pragma once

#include <fa2/types.h>

namespace fa2 {

/// Promises about every call of a plan. They choose among kernels, and change nothing of what is computed.
///
/// One field, one visit line: comparison, the kernel's identity, tuning buckets, JSON and flags follow.
struct PlanOptions {
  RowAlignment row_alignment = RowAlignment::bytes16;

  /// Calls field(name, value...) for each field in order, with its values in all of `options`.
  template <class Field, class... Options>
  static constexpr void visit(Field&& field, Options&... options) {
    field("row_alignment", options.row_alignment...);
  }

  friend bool operator==(const PlanOptions& a, const PlanOptions& b) {
    bool equal = true;
    visit([&](const char*, const auto& x, const auto& y) { equal = equal && x == y; }, a, b);
    return equal;
  }
  friend bool operator!=(const PlanOptions& a, const PlanOptions& b) { return !(a == b); }
};

}  // namespace fa2
