// How many groups of heads hide an exchange.
#pragma once

#include <fa2/problem.h>

#include <cstdint>

namespace fa2 {

/// Returns into how many groups of equal size a rank with `queries` divides the entries, or the key/value heads of the one entry: as
/// many as leave every group some tiles per SM, because the last tiles of a group run on few of them. `sm_count` 0: unknown.
int group_count(const AttentionProblem& problem, std::int64_t queries, int sm_count);

}  // namespace fa2
