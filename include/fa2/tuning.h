// When configurations are measured, and what a search reports.
#pragma once

#include <fa2/config.h>
#include <fa2/plan_options.h>
#include <fa2/problem.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fa2 {

enum class TuneMode : std::uint8_t {
  off,     ///< heuristic only
  stored,  ///< the user's tuning records, then those shipped with the library, then the heuristic
  learn,  ///< like stored. What has no exact record is measured meanwhile, for processes that start later (default)
  adaptive,  ///< like learn, and this context follows what it has learned: the bits of a problem may change
  now  ///< an exact record, the user's or a shipped one; else the call waits while candidates are measured
};

/// Which configurations a search measures.
enum class TuneScope : std::uint8_t {
  likely,  ///< the heuristic's choice and the valid ones most similar to it, 24 in all (default)
  all      ///< every valid one, likely ones first: hundreds, which take a budget of minutes
};

/// One configuration that a search considered.
struct TuneCandidate {
  KernelConfig config;
  double median_us = 0;  ///< 0 if it was never timed
  int samples = 0;
  std::string dropped;  ///< why the search dropped it; empty for the finalists
};

struct TuneReport {
  AttentionProblem problem;  ///< whose kernel was measured
  PlanOptions options;       ///< of the plans that use the tuning record
  std::string bucket;
  KernelConfig best;
  double best_us = 0;
  double heuristic_us = 0;
  double seconds = 0;
  bool budget_spent = false;  ///< whether the search ran out of time
  /// The finalists, fastest first, then the others, most samples first. Medians are comparable only among candidates with
  /// equally many samples, because the GPU's clock drifts.
  std::vector<TuneCandidate> candidates;
};

}  // namespace fa2
