// How tensors hold the sequences of a problem.
#pragma once

#include <fa2/problem.h>

#include <algorithm>
#include <cstdint>

namespace fa2 {

/// A tensor's first and third dimension.
struct Entries {
  std::int64_t count = 0;
  std::int64_t rows = 0;
};

/// Returns the entries of Q and O: one per batch entry, or one with the rows of all sequences.
constexpr Entries q_entries(const AttentionProblem& p) {
  return p.total_q > 0 ? Entries{1, p.total_q} : Entries{p.batch, p.seqlen_q};
}
/// Returns the entries of K and V, which may be pages.
constexpr Entries k_entries(const AttentionProblem& p) {
  if (p.total_k > 0) return {1, p.total_k};
  return p.page_size > 0 ? Entries{p.page_count, p.page_size} : Entries{p.batch, p.seqlen_k};
}

/// Returns the pages of the longest sequence.
constexpr std::int64_t pages_of_sequence(const AttentionProblem& p) {
  return p.page_size > 0 ? (p.seqlen_k + p.page_size - 1) / p.page_size : 0;
}

/// Returns whether kernels on wgmma gather the rows of pages, see templates/attention/common/key_pages.cuh. Takes a problem or its
/// traits.
template <class Problem>
constexpr bool gathers_keys(const Problem& p) {
  return p.page_size % (p.head_dim > 64 || p.head_dim_v > 64 ? 32 : 16) != 0;
}

/// Returns the batched problem that stands for a packed one as long as its lengths are unknown: all sequences have the mean
/// lengths. Few last queries are taken to see a whole chunk, because only the device knows where theirs begins.
constexpr AttentionProblem with_mean_lengths(const AttentionProblem& packed) {
  AttentionProblem p = packed;
  const auto mean = [&](std::int64_t total) { return (total + p.batch - 1) / p.batch; };
  if (p.batch > 0 && p.total_q > 0) p.seqlen_q = std::min(p.seqlen_q, mean(p.total_q));
  if (p.batch > 0 && p.total_k > 0) p.seqlen_k = std::min(p.seqlen_k, mean(p.total_k));
  p.total_q = p.total_k = 0;
  if (p.varlen && p.attention_chunk && p.seqlen_q < *p.attention_chunk && p.seqlen_k > *p.attention_chunk)
    p.seqlen_k -= p.seqlen_k % *p.attention_chunk;
  return p;
}

}  // namespace fa2
