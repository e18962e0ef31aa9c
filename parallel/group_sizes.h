// Which groups of heads hide an exchange.
#pragma once

#include <fa2/problem.h>

#include <cstdint>
#include <vector>

namespace fa2 {

/// Returns what groups divide: the number of entries, or of the key/value heads of the one entry.
std::int64_t group_units(const AttentionProblem& problem);

/// Returns into how many groups of equal size a rank with `queries` divides its units. More groups
/// expose less of the `bytes` that the rank receives in a forward. But each group has a last wave of tiles, and an exchange that takes SMs
/// from it. Groups are so few that each has some tiles per SM. `sm_count` 0: unknown.
int group_count(const AttentionProblem& problem, std::int64_t queries, std::int64_t bytes, int sm_count);

/// As group_count(), for forward_sizes().
int forward_group_count(const AttentionProblem& problem, std::int64_t queries, std::int64_t bytes,
                        int sm_count);

/// Returns at most `groups` nearly equal sizes. Both numbers must be at least 1.
std::vector<std::int64_t> equal_sizes(std::int64_t units, int groups);

/// As equal_sizes(), for a forward. The first of two groups is a quarter: it is exposed, and the rest arrives in its time.
std::vector<std::int64_t> forward_sizes(std::int64_t units, int groups);

}  // namespace fa2
