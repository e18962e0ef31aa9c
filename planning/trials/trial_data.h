// The data of a search: a shape that is quick to measure, random inputs, and the comparison of outputs.
#pragma once

#include <core/element_type.h>
#include <fa2/args.h>
#include <fa2/problem.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2 {

struct TrialLimits {
  double bytes = 1 << 30;  ///< of Q, K, V and O in total
  double flops = 4e12;     ///< of one forward; about 10 ms
  std::int64_t min_blocks =
      0;  ///< blocks of 128 query rows that keep the GPU as busy as the real problem does
};

/// Returns the problem, reduced to the limits: first fewer batches and heads (whole groups), while `min_blocks` blocks remain,
/// then shorter sequences. Packed sequences keep their mean length, or its ratio to the longest. `problem` must be valid and
/// normalized.
AttentionProblem within(const TrialLimits& limits, AttentionProblem problem);

/// Returns lengths to measure with, for lengths that only the device knows; the same for the same arguments.
/// They add up to `total` rows, or to as many as fit. None is longer than `longest`, and one has this length
/// if `total` suffices. The others are log-normally distributed. For a batched side, `total` = 0, all are
/// `longest`.
std::vector<std::int64_t> mix_of(std::int64_t batch, std::int64_t total, std::int64_t longest);

/// Returns the positions of a zigzag's first rank: one half of the queries begins the sequence, and one ends it.
QueryPieces trial_pieces(const AttentionProblem& problem, std::int64_t queries, std::int64_t keys);

/// Returns AttentionArgs::query_pieces.table for the sequences of mix_of(), at trial_pieces().
std::vector<std::int32_t> trial_piece_table(const AttentionProblem& problem);

/// Returns cu_seqlens: where packed sequences of these lengths begin, and where the last ends.
std::vector<std::int32_t> borders_of(const std::vector<std::int64_t>& lengths);

/// Returns the number of pairs of a query and a key that it sees, for one query head. With varlen, of the sequences of mix_of().
double pairs_of_mix(const AttentionProblem& problem);

/// The value of a variant's number, such as a softcap: typical of models.
constexpr float kTrialNumber = 30;
/// The probability of dropout. No kernel's time depends on it.
constexpr float kTrialDropout = 0.1f;

/// The standard deviation of half of the queries, which makes their rows peaked, like those of trained models. A
/// kernel's time depends on it.
constexpr float kPeakedQueries = 4;

/// Returns `count` normally distributed values as bits of `dtype`, the same in every call.
std::vector<std::uint16_t> normal_values(std::size_t count, DType dtype, float deviation = 1);
/// Returns `count` 16-bit words of memory that holds such values: of f16 and bf16 one each, of e4m3 two.
std::vector<std::uint16_t> normal_words(std::size_t count, ElementType type);
/// Returns the words of whole rows of KvType::ds_mla, about `count`, whose columns are such values.
std::vector<std::uint16_t> latent_words(std::size_t count);

/// Returns how two outputs of (rows, dim) elements differ by more than rounding, which is 4 units in the last place of the row's
/// largest finite magnitude; nullopt if they do not. NaN and infinities differ from everything. If scores `may_overflow`, where none is
/// expected to be finite any written element will do.
std::optional<std::string> difference(const std::vector<std::uint16_t>& expected,
                                      const std::vector<std::uint16_t>& actual, std::int64_t dim, DType dtype,
                                      bool may_overflow = false);

/// The bits of elements that no kernel has written: a NaN.
constexpr std::uint16_t kUnwritten = 0xffff;

}  // namespace fa2
