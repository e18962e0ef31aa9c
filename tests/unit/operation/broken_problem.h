// A small valid problem, and what the rules say once it has been changed.
#pragma once

#include <operation/rules/validate.h>
#include <tests/support/request.h>

#include <string>

namespace fa2::test {

inline PlannedProblem valid_problem() {
  PlannedProblem p;
  p.row_alignment = RowAlignment::bytes16_any_order;  // tests only the rules of alignment
  p.head_dim = 64;
  p.batch = 2;
  p.heads_q = 4;
  p.heads_kv = 2;
  p.seqlen_q = 16;
  p.seqlen_k = 32;
  return p.normalized();
}

/// Returns the violations of valid_problem() after change(problem).
template <class Change>
std::string broken_problem(Change change) {
  PlannedProblem p = valid_problem();
  change(p);
  return fields(violations_of(p));
}

}  // namespace fa2::test
