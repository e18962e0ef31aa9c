// What tests expect of every kernel that computes dQ, dK and dV at once.
#pragma once

#include <cstdint>
#include <functional>

#include "gpu_backward.h"

namespace fa2::test {

/// Runs a call that has been uploaded, with the kernel under test, and CHECKs its gradients.
using Expectation = std::function<void(const GuardedBackward&)>;

/// Of calls where every score is very negative. The probability of a key beyond the last is 2^-LSE, inf here; nothing of it may
/// reach dQ, and inf * 0 is NaN.
void expect_no_part_of_missing_keys(const Expectation& expect, int head_dim, int seqlen_k);

/// Of a call whose bias grows with the distance: that of a query beyond the last may make a probability inf.
void expect_no_part_of_missing_queries(const Expectation& expect);

/// Of large and negative scales, with gradients of any size.
void expect_any_scale_and_size(const Expectation& expect, int head_dim);

/// CHECKs that NaN in dO of query 150 is in its dQ and in dK and dV of its keys, but not in tiles of keys from `first_hidden` on,
/// which it does not see.
void expect_nan_of_one_query(Context& context, std::int64_t first_hidden);

}  // namespace fa2::test
