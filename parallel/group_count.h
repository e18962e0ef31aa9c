// How many groups of heads hide an exchange.
#pragma once

#include <fa2/problem.h>

#include <cstdint>

namespace fa2 {

/// Returns into how many groups of equal size a rank with `queries` divides the entries, or the key/value heads of the one entry. More groups
/// expose less of the `bytes` that the rank receives in a forward. But each group has a last wave of tiles, and an exchange that takes SMs
/// from it. Groups are so few that each has some tiles per SM. `sm_count` 0: unknown.
int group_count(const AttentionProblem& problem, std::int64_t queries, std::int64_t bytes, int sm_count);

}  // namespace fa2
