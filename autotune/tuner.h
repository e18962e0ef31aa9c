// The search over configurations. No CUDA here: what compiles and what measures are given as an interface.
#pragma once

#include <fa2/attention.h>

#include <cstddef>
#include <vector>

namespace fa2 {

/// What a search needs done. prepare() is called from several threads at once, measure() from one.
class Trial {
 public:
  virtual ~Trial() = default;

  /// Compiles, loads and checks candidate `index`. @throws Error: the candidate is discarded with that message.
  virtual void prepare(std::size_t index) = 0;

  /// Runs candidate `index` in one short burst; returns microseconds per launch. @throws Error: discarded likewise.
  virtual double measure_us(std::size_t index) = 0;
};

struct TunerOptions {
  double budget_seconds = 3.0;   ///< compiling included
  int compile_threads = 4;
  std::uint32_t seed = 1;        ///< of the measuring order, shuffled every round
  double keep_margin = 0.02;     ///< a challenger must beat the heuristic by this share, else the heuristic stays
};

/// Candidate 0 is the heuristic's choice: it is always measured, and the result never loses to it.
/// Successive halving: every prepared candidate gets a few interleaved bursts; those slower than 1.3x the best leave; the
/// rest get more. Ends when few are left and well measured, or when the budget is spent.
/// @throws the error of candidate 0 if no candidate could be prepared.
TuneReport search(const std::vector<KernelConfig>& candidates, Trial& trial, const TunerOptions& options);

}  // namespace fa2
