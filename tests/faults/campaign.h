// Runs many faults in child processes, judges each, and prints a table at the end of the suite.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace fa2::test {

enum class Outcome : std::uint8_t {
  healed,   ///< right results, and the disk holds what it should
  refused,  ///< right results, the disk does not hold them, and a message says why
  wrong,    ///< a wrong result, a lost entry, a leftover, or a failure without a message
  none,     ///< the fault did not happen; not counted
};

struct Verdict {
  Outcome outcome = Outcome::healed;
  std::string why;  ///< what is wrong; empty otherwise
};

inline Verdict wrong(const std::string& why) {
  return {Outcome::wrong, why};
}

/// Returns the worse of two verdicts: wrong, refused, healed.
Verdict worse(const Verdict& a, const Verdict& b);

/// Describes the fault in progress, for the report of a failure or crash.
void describe(const std::string& fault);

/// Returns whether FA2_FAULTS is "all": every fault, instead of a part of them.
bool injects_all();

/// Injects faults `first`, `first` + `step`, ... below `end`. FA2_FAULT_SEED and FA2_FAULT_COUNT replace `first` and `end`,
/// with step 1. Runs them in child processes, which an alarm ends after 30 s per fault. Prints each failure with what
/// replays it, adds the counts to the row `kind`, and CHECKs that no fault ended wrong, in a crash or in a hang.
struct Seeds {
  std::uint64_t first = 0, end = 0, step = 1;
};
void inject(const std::string& kind, const Seeds& seeds,
            const std::function<Verdict(std::uint64_t seed)>& fault);

/// Returns the first `all` seeds with FA2_FAULTS=all, else `part` of them.
Seeds random_seeds(std::uint64_t part, std::uint64_t all);
/// Returns all of `count` enumerated faults with FA2_FAULTS=all, else each `step`th.
Seeds every(std::uint64_t count, std::uint64_t step);

}  // namespace fa2::test
