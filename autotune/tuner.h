// The search over configs. It contains no CUDA: an interface compiles and measures.
#pragma once

#include <fa2/attention.h>

#include <cstddef>
#include <functional>
#include <stop_token>
#include <vector>

namespace fa2 {

/// Compiles and measures candidates for a search. Several threads call prepare() at once, one calls measure_us().
class Trial {
 public:
  virtual ~Trial() = default;

  /// Compiles and loads candidate `index`. @throws Error: the candidate is discarded with that message.
  virtual void prepare(std::size_t index) = 0;

  /// Runs candidate `index` in one short burst; returns microseconds per launch, more than 0. The first call
  /// is for candidate 0, if that could be prepared, so that the others' results can be checked against its
  /// own.
  /// @throws Error: the candidate is discarded with that message.
  virtual double measure_us(std::size_t index) = 0;
};

struct TunerOptions {
  double budget_seconds = 3.0;  ///< compiling included
  int compile_threads = 4;
  std::uint32_t seed = 1;     ///< seed of the measuring order, which is shuffled every round
  std::size_t finalists = 4;  ///< candidates that are measured to the end, including candidate 0
  double keep_margin =
      0.02;  ///< a challenger must beat the heuristic by this share, else the heuristic stays
  std::function<double()> now_seconds;  ///< the clock, called from several threads; unset: a steady clock
  /// The GPU's time that measuring may take, as a share; below 1 other work runs beside it, and disturbs most samples. Then a rest
  /// follows each sample, there are 8 times as many, the twentieth of them that are fastest count instead of the median, and a
  /// challenger must win by its fastest sample, too.
  double gpu_share = 1;
  std::function<void(double seconds)> rest;  ///< unset: sleeps, until a stop
  std::stop_token stop;                      ///< ends the search after the step under way
};

/// Candidate 0 is the heuristic's choice: it is always measured, and the result never loses to it.
/// First all candidates are prepared, in order, as long as the next is expected to be ready within 75 % of the
/// budget. Then successive halving: every prepared candidate gets 3 interleaved bursts; those slower
/// than 1.3x the best leave; after 7 all slower than 1.1x and all but the fastest `finalists` (candidate 0
/// always stays); the rest get 15. Ends there or when the budget is spent; bursts under way are finished, and
/// the first 3 bursts may take half the budget more, because without them the compiling was useless. Given
/// the same clock and measurements it gives the same report. The caller fills the report's `problem`
/// and `bucket`.
/// @throws the error of candidate 0 if no candidate could be measured.
TuneReport search(const std::vector<KernelConfig>& candidates, Trial& trial, const TunerOptions& options);

}  // namespace fa2
