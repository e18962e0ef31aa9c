// What a search computes on: a shape that can be measured quickly, random inputs, and the comparison of
// outputs.
#pragma once

#include <fa2/problem.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2 {

struct TrialLimits {
  double bytes = 1 << 30;  ///< of Q, K, V and O together
  double flops = 4e12;     ///< of one forward: some 10 ms
  std::int64_t min_blocks =
      0;  ///< blocks of 128 query rows that keep the GPU as busy as the real problem does
};

/// The problem, made smaller until it is within the limits: fewer batches and heads (whole groups) while
/// `min_blocks` blocks remain, then shorter sequences. Packed ones keep their mean length, or its part of the longest.
/// `problem` is valid and normalized.
AttentionProblem within(const TrialLimits& limits, AttentionProblem problem);

/// Lengths of `batch` sequences that stand for those that only the device knows, always the same ones: `total` rows in
/// all (as many as fit, if it is more), none longer than `longest`, one that long where `total` has so many, the others
/// log-normally spread. `total` 0, a batched side: all `longest`.
std::vector<std::int64_t> mix_of(std::int64_t batch, std::int64_t total, std::int64_t longest);

/// Where packed sequences of these lengths begin, and where the last ends: cu_seqlens.
std::vector<std::int32_t> borders_of(const std::vector<std::int64_t>& lengths);

/// Pairs of a query and a key that it sees, of all sequences and one query head; with varlen, of those of mix_of().
double pairs_of_mix(const AttentionProblem& problem);

/// For a number of a variant, a cap for instance: of the size that models have.
constexpr float kTrialNumber = 30;
/// The probability of dropout, which no kernel's time depends on.
constexpr float kTrialDropout = 0.1f;

/// `count` normally distributed values in the bits of `dtype`, always the same ones.
std::vector<std::uint16_t> normal_values(std::size_t count, DType dtype);

/// How two outputs of (rows, dim) elements differ by more than rounding; nullopt if they do not. Rounding: 4
/// units in the last place of the row's largest magnitude. NaN and infinities differ from everything.
std::optional<std::string> difference(const std::vector<std::uint16_t>& expected,
                                      const std::vector<std::uint16_t>& actual, std::int64_t dim,
                                      DType dtype);

}  // namespace fa2
