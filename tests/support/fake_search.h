// Searches that measure nothing, for some_problem() on some_gpu().
#pragma once

#include <autotune/candidates.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <tests/support/tuning_record.h>

namespace fa2::test {

/// Returns a valid config that the heuristic does not choose.
inline KernelConfig another_config() {
  return search_candidates(some_problem(), some_gpu().arch).at(1);
}

/// A search that always finds another_config(), 20 % faster.
inline TuneReport found(const PlannedProblem&) {
  TuneReport report;
  report.best = another_config();
  report.best_us = 80;
  report.heuristic_us = 100;
  report.seconds = 2.1;
  report.candidates = {{another_config(), 80, 15, ""}, {KernelConfig{}, 100, 15, ""}};
  return report;
}

inline TuneReport must_not_search(const PlannedProblem&) {
  FAIL("searched");
  return {};
}

}  // namespace fa2::test
