// Which keys the queries of the global stream see, in closed form.
#pragma once

#include <fa2/context_parallel.h>
#include <fa2/problem.h>

#include <cstdint>
#include <vector>

namespace fa2 {

/// The mask, window and chunks of a problem whose queries and keys are the same tokens, as positions of the global stream. A query sees
/// itself, and the keys around it up to a bound on the left and one on the right, as far as its document reaches. A chunk of
/// attention_chunk keys counts as a document.
class StreamMask {
 public:
  /// `problem` must be valid. `cu_seqlens`: where documents begin, and the end; empty: one sequence of seqlen_q tokens.
  /// @throws InvalidRequest unless queries and keys are the same tokens, or if `cu_seqlens` is no table of documents.
  explicit StreamMask(const AttentionProblem& problem, const std::vector<std::int64_t>& cu_seqlens = {});

  std::int64_t tokens() const { return borders_.back(); }

  /// Returns the parts of `tokens` by documents, in order.
  std::vector<Slice> by_document(const Slice& tokens) const;

  /// Returns the document of a token.
  Slice document_of(std::int64_t token) const;

  /// Returns the keys that some of `queries` see. They are consecutive. `queries` must be of one document, and not empty.
  Slice keys_of(const Slice& queries) const;

  /// Returns the number of pairs of a query of `queries` and a key that it sees.
  std::int64_t pairs(const Slice& queries) const;

 private:
  std::vector<std::int64_t> borders_;  ///< of documents; ascending, without empty documents
  std::int64_t left_ = 0;
  std::int64_t right_ = 0;
};

}  // namespace fa2
