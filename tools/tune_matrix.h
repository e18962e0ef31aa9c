// Many problems, searched one after the other.
#pragma once

#include <autotune/config_choice.h>
#include <autotune/tuning_store.h>
#include <generator/kernel_spec.h>
#include <tools/verb.h>
#include <tools/wrap.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fa2::tools {

/// A problem of a matrix, and what became of it.
struct MatrixPoint {
  PlannedProblem problem;
  std::string skipped;                ///< why it is not searched; empty if it is
  std::vector<TuningRecord> records;  ///< that it has, or got: one a pass
  std::string error;                  ///< why it got none
};

/// The passes that a problem has records of.
using PassesOf = std::function<std::vector<KernelPass>(const PlannedProblem&)>;
std::vector<KernelPass> forward_alone(const PlannedProblem& problem);

/// Skipped is what `known` has records of on the target, one a pass, made with this library's templates, and what shares
/// the bucket of an earlier problem. Without a target nothing is known.
std::vector<MatrixPoint> points_of(const std::vector<PlannedProblem>& problems,
                                   const std::vector<TuningRecord>& known,
                                   const std::optional<Target>& target,
                                   const PassesOf& passes_of = forward_alone);

/// What searching a matrix needs done.
struct MatrixSearch {
  /// At least one record; an Error costs this problem alone.
  std::function<std::vector<TuningRecord>(const PlannedProblem&)> tune;
  std::function<void(const TuningRecord&)> keep;  ///< an Error ends the search
  std::function<void(const std::string&)> say;    ///< a line for each problem searched, without a newline
  std::function<double()> now_seconds;
};

/// Searches what is not skipped, in order; each problem's records are kept before the next search begins.
void search(std::vector<MatrixPoint>& points, const MatrixSearch& matrix);

/// "[12/108] f16 d128 ...", a line a problem; after it why it would be skipped.
std::string list_of(const std::vector<MatrixPoint>& points);
/// A row a record, or a problem without one, and a line of how many problems there are of each kind.
std::string text_of(const std::vector<MatrixPoint>& points, std::size_t width = kAnyWidth);
/// An object a problem.
Json json_of(const std::vector<MatrixPoint>& points);

}  // namespace fa2::tools
