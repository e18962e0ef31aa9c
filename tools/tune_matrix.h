// Many problems, searched one after the other.
#pragma once

#include <autotune/config_choice.h>
#include <autotune/tuning_store.h>
#include <generator/kernel_spec.h>
#include <tools/verb.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fa2::tools {

/// A problem of a matrix, and what became of it.
struct MatrixPoint {
  PlannedProblem problem;
  std::string skipped;                 ///< why it is not searched; empty if it is
  std::optional<TuningRecord> record;  ///< that it has, or got
  std::string error;                   ///< why it got none
};

/// Skipped is what `known` has a record of on the target, made with this library's templates, and what shares the bucket
/// of an earlier problem. Without a target nothing is known.
std::vector<MatrixPoint> points_of(const std::vector<PlannedProblem>& problems,
                                   const std::vector<TuningRecord>& known,
                                   const std::optional<Target>& target);

/// What searching a matrix needs done.
struct MatrixSearch {
  std::function<TuningRecord(const PlannedProblem&)> tune;  ///< an Error costs this problem alone
  std::function<void(const TuningRecord&)> keep;            ///< an Error ends the search
  std::function<void(const std::string&)> say;  ///< a line for each problem searched, without a newline
  std::function<double()> now_seconds;
};

/// Searches what is not skipped, in order; each record is kept before the next search begins.
void search(std::vector<MatrixPoint>& points, const MatrixSearch& matrix);

/// "[12/108] f16 d128 ...", a line a problem; after it why it would be skipped.
std::string list_of(const std::vector<MatrixPoint>& points);
/// A row a problem, and a line of how many there are of each kind.
std::string text_of(const std::vector<MatrixPoint>& points);
/// An object a problem.
Json json_of(const std::vector<MatrixPoint>& points);

}  // namespace fa2::tools
