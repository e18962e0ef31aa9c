// Attention with all tokens of some heads on each rank (DeepSpeed Ulysses, arXiv 2309.14509): tensors travel from shards of tokens to shards
// of heads, and results back.
//
// Two kinds of memory meet in a message. A rank's blocks have its own tokens, one block for the heads of each rank: (entries, own tokens,
// row). Whole tensors have all tokens for the rank's own heads: (entries, tokens, row). A row has some heads of several tensors, one
// tensor after the other: for example those of Q, then K, then V.
#pragma once

#include <fa2/communicator.h>
#include <fa2/types.h>
#include <parallel/rows_of_slices.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fa2 {

/// Returns the key/value heads of each rank in each group, [group][rank], none of them empty: at most `groups` groups.
/// `heads_kv` must be at least `ranks`.
std::vector<std::vector<Slice>> head_shares(std::int64_t heads_kv, int ranks, int groups);

/// The tensors of a message's row.
class HeadRow {
 public:
  /// Adds a tensor with `heads` heads per key/value head. Returns its number.
  std::size_t add(std::int64_t heads, std::int64_t dim);

  std::size_t tensors() const { return tensors_.size(); }
  std::int64_t heads(std::size_t tensor) const { return tensors_[tensor].heads; }  ///< per key/value head
  std::int64_t dim(std::size_t tensor) const { return tensors_[tensor].dim; }
  std::int64_t elements() const { return elements_; }  ///< per key/value head

  /// Returns the address of a tensor in memory with `rows` rows of `heads_kv` heads, and its strides.
  std::byte* place(std::byte* data, std::size_t tensor, std::int64_t heads_kv) const;
  TensorStrides strides(std::size_t tensor, std::int64_t heads_kv, std::int64_t rows) const;

 private:
  struct Tensor {
    std::int64_t heads, dim, before;  ///< before: elements of the tensors before it, per key/value head
  };
  std::vector<Tensor> tensors_;
  std::int64_t elements_ = 0;
};

/// Rows of some entries in memory.
struct RowMemory {
  std::byte* data = nullptr;
  std::int64_t entries = 1;
  std::int64_t entry_bytes = 0;
  std::int64_t row_bytes = 0;
};

/// Where the rows of an exchange lie.
struct HeadExchange {
  std::vector<RowMemory> blocks;  ///< per rank: own tokens, of that rank's heads
  RowMemory whole;                ///< all tokens, of the own heads
};

enum class Direction : std::uint8_t { to_heads, home };

/// Appends the messages of `rank`, in an order on which ranks agree: to_heads from blocks to whole tensors, or home. `held`: the
/// slices of each rank.
void add_transfers(std::vector<Transfer>& transfers, const HeadExchange& of, Direction direction,
                   const std::vector<RowsOfSlices>& held, int rank);

}  // namespace fa2
