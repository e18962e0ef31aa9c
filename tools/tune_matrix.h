// Tuning of many problems, one after the other.
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

/// A problem of a matrix, and the result of its search.
struct MatrixPoint {
  PlannedProblem problem;
  std::string skipped;                ///< why it is not searched; empty if it is
  std::vector<TuningRecord> records;  ///< its records, old or new, one per pass
  std::string error;                  ///< why it has no record
};

/// Returns the passes for which a problem has records.
using PassesOf = std::function<std::vector<KernelPass>(const PlannedProblem&)>;
std::vector<KernelPass> forward_alone(const PlannedProblem& problem);

/// Returns the points of a matrix. A problem is skipped if `known` has its records for the target, one per
/// pass, from this library's templates, or if it shares the bucket of an earlier problem. Without a target no
/// record counts as known.
std::vector<MatrixPoint> points_of(const std::vector<PlannedProblem>& problems,
                                   const std::vector<TuningRecord>& known,
                                   const std::optional<Target>& target,
                                   const PassesOf& passes_of = forward_alone);

/// The actions that searching a matrix needs.
struct MatrixSearch {
  /// returns at least one record; an Error fails this problem only
  std::function<std::vector<TuningRecord>(const PlannedProblem&)> tune;
  std::function<void(const TuningRecord&)> keep;  ///< stores a record; an Error ends the search
  std::function<void(const std::string&)> say;    ///< prints one line per problem searched; without a newline
  std::function<double()> now_seconds;
};

/// Searches the points that are not skipped, in order. It stores each problem's records before the next
/// search.
void search(std::vector<MatrixPoint>& points, const MatrixSearch& matrix);

/// Returns one line per problem, "[12/108] f16 d128 ...", and why it would be skipped.
std::string list_of(const std::vector<MatrixPoint>& points);
/// Returns one row per record or failed problem, and a line that counts problems of each kind.
std::string text_of(const std::vector<MatrixPoint>& points, std::size_t width = kAnyWidth);
/// Returns one object per problem.
Json json_of(const std::vector<MatrixPoint>& points);

}  // namespace fa2::tools
