// Chunks dealt to ranks by their work.
#include <parallel/chunks.h>
#include <parallel/stream_mask.h>

#include <algorithm>
#include <utility>

namespace fa2 {
namespace {

struct Hand {
  std::vector<Slice> chunks;
  std::int64_t pairs = 0;
};

struct Chunk {
  Slice tokens;
  std::int64_t pairs = 0;
};

/// Returns chunks in the order in which they are dealt: most work first, and of equal ones the first.
std::vector<Chunk> chunks_by_work(const StreamMask& mask, std::int64_t chunk) {
  std::vector<Chunk> chunks;
  for (std::int64_t begin = 0; begin < mask.tokens(); begin += chunk) {
    const Slice tokens{begin, std::min(begin + chunk, mask.tokens())};
    chunks.push_back({tokens, mask.pairs(tokens)});
  }
  std::ranges::sort(chunks, {}, [](const Chunk& c) { return std::pair(-c.pairs, c.tokens.begin); });
  return chunks;
}

}  // namespace

ShardLayout ShardLayout::balanced(const AttentionProblem& problem,
                                  const std::vector<std::int64_t>& cu_seqlens, int count,
                                  std::int64_t chunk) {
  require_chunks({}, count, chunk);
  const StreamMask mask(problem, cu_seqlens);
  const std::vector<Chunk> chunks = chunks_by_work(mask, chunk);
  const std::size_t each = chunks.size() / count;
  std::size_t larger = chunks.size() % count;  // ranks that may take one chunk more
  std::vector<Hand> hands(count);
  for (const Chunk& next : chunks) {
    Hand* least = nullptr;
    for (Hand& hand : hands) {
      const std::size_t most = each + (larger > 0 ? 1 : 0);
      if (hand.chunks.size() < most && (least == nullptr || hand.pairs < least->pairs)) least = &hand;
    }
    if (least->chunks.size() == each) --larger;
    least->chunks.push_back(next.tokens);
    least->pairs += next.pairs;
  }
  ShardLayout layout{mask.tokens(), {}};
  for (Hand& hand : hands) {
    std::ranges::sort(hand.chunks, {}, &Slice::begin);
    layout.ranks.emplace_back();
    for (const Slice& tokens : hand.chunks) add_slice(layout.ranks.back(), tokens);
  }
  return layout;
}

}  // namespace fa2
