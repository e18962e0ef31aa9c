// One attention over a sequence whose tokens are sharded over ranks (context parallelism).
#pragma once

#include <fa2/errors.h>
#include <fa2/problem.h>
#include <fa2/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fa2 {

/// Consecutive tokens [begin, end) of the global stream, which is one sequence, or packed documents one after the other.
struct Slice {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  constexpr std::int64_t size() const { return end - begin; }
  friend constexpr bool operator==(const Slice& a, const Slice& b) {
    return a.begin == b.begin && a.end == b.end;
  }
  friend constexpr bool operator!=(const Slice& a, const Slice& b) { return !(a == b); }
};

/// Which rank holds which tokens. A rank's tensors have its slices one after the other. Ranks may hold different numbers of tokens,
/// and none. The functions that make a layout join slices that touch, and leave out empty ones. Chunks begin at multiples of
/// `granule` tokens of the stream or document, and the sizes of chunks differ by at most one granule.
struct FA2_API ShardLayout {
  std::int64_t tokens = 0;                ///< tokens of the global stream; >= 0
  std::vector<std::vector<Slice>> ranks;  ///< slices per rank, in ascending order; together each token once

  /// Returns chunk r of P for rank r. Under a causal mask the last rank has twice the mean work.
  static ShardLayout contiguous(std::int64_t tokens, int ranks, std::int64_t granule = 1);

  /// Returns chunks r and 2P - 1 - r of 2P for rank r. Under a causal mask all ranks have the same work.
  static ShardLayout zigzag(std::int64_t tokens, int ranks, std::int64_t granule = 1);

  /// Returns the zigzag of each document, one after the other. `cu_seqlens`: where documents begin, and the end: 0, ..., tokens.
  /// Documents much shorter than 2P granules are not balanced: see balanced().
  static ShardLayout zigzag_documents(const std::vector<std::int64_t>& cu_seqlens, int ranks,
                                      std::int64_t granule = 1);

  /// Returns chunks of `chunk` tokens, dealt so that ranks have nearly equal work under the problem's mask and window: the chunk with
  /// most work first, to the rank with least work among those that lack chunks. Numbers of chunks differ by at most 1. `cu_seqlens`
  /// as for zigzag_documents(), or empty without documents. A rank may have many slices.
  static ShardLayout balanced(const AttentionProblem& problem, const std::vector<std::int64_t>& cu_seqlens,
                              int ranks, std::int64_t chunk);

  int size() const { return static_cast<int>(ranks.size()); }  ///< returns the number of ranks
  std::int64_t tokens_of(int rank) const;                      ///< returns the number of tokens of a rank

  friend bool operator==(const ShardLayout& a, const ShardLayout& b) {
    return a.tokens == b.tokens && a.ranks == b.ranks;
  }
  friend bool operator!=(const ShardLayout& a, const ShardLayout& b) { return !(a == b); }
};

/// Returns what is wrong with a layout: slices outside the stream or out of order, tokens on no rank or on several.
FA2_API std::vector<Violation> violations(const ShardLayout& layout);

/// Returns for example "8 tokens: 0 [0, 2) [6, 8); 1 [2, 6)".
FA2_API std::string to_string(const ShardLayout& layout);

}  // namespace fa2
