#include <parallel/chunks.h>
#include <parallel/element_sizes.h>
#include <parallel/head_plan.h>

#include <algorithm>

namespace fa2 {
namespace {

using Kind = Transfer::Kind;

}  // namespace

std::vector<std::vector<Slice>> head_shares(std::int64_t heads_kv, int ranks, int groups) {
  const std::vector<Slice> of_ranks = equal_chunks({0, heads_kv}, ranks, 1);
  const auto smallest = std::ranges::min(of_ranks, {}, &Slice::size).size();
  const auto count = static_cast<int>(std::min<std::int64_t>(groups, smallest));
  std::vector<std::vector<Slice>> shares(static_cast<std::size_t>(count));
  for (const Slice& heads : of_ranks) {
    const std::vector<Slice> parts = equal_chunks(heads, count, 1);
    for (int group = 0; group < count; ++group) shares[group].push_back(parts[group]);
  }
  return shares;
}

std::size_t HeadRow::add(std::int64_t heads, std::int64_t dim) {
  tensors_.push_back({heads, dim, elements_});
  elements_ += heads * dim;
  return tensors_.size() - 1;
}

std::byte* HeadRow::place(std::byte* data, std::size_t tensor, std::int64_t heads_kv) const {
  return data + tensors_[tensor].before * heads_kv * kElementBytes;
}

TensorStrides HeadRow::strides(std::size_t tensor, std::int64_t heads_kv, std::int64_t rows) const {
  const std::int64_t row = elements_ * heads_kv;
  return {rows * row, tensors_[tensor].dim, row};
}

void add_transfers(std::vector<Transfer>& transfers, const HeadExchange& of, Direction direction,
                   const std::vector<RowsOfSlices>& held, int rank) {
  const auto add = [&](Kind kind, int peer, const RowMemory& memory, std::int64_t first, std::int64_t rows) {
    for (std::int64_t entry = 0; entry < memory.entries; ++entry)
      transfers.push_back({kind, peer, memory.data + entry * memory.entry_bytes + first * memory.row_bytes,
                           static_cast<std::size_t>(rows * memory.row_bytes)});
  };
  const bool to_heads = direction == Direction::to_heads;
  const Kind of_blocks = to_heads ? Kind::send : Kind::receive,
             of_whole = to_heads ? Kind::receive : Kind::send;
  const int ranks = static_cast<int>(held.size());
  for (int distance = 0; distance < ranks; ++distance) {
    const int above = (rank + distance) % ranks, below = (rank - distance + ranks) % ranks;
    // At each distance every rank sends to `above` and receives from `below`.
    const int block = to_heads ? above : below, owner = to_heads ? below : above;
    for (const Slice& slice : held[rank].slices())
      add(of_blocks, block, of.blocks[block], held[rank].of(slice.begin), slice.size());
    for (const Slice& slice : held[owner].slices()) add(of_whole, owner, of.whole, slice.begin, slice.size());
  }
}

}  // namespace fa2
