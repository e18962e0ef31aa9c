// Layouts made of equal chunks, and their rules.
#include <fa2/context_parallel.h>
#include <fmt/format.h>
#include <parallel/chunks.h>
#include <parallel/request_check.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace fa2 {
namespace {

std::string text_of(const Slice& slice) {
  return fmt::format("[{}, {})", slice.begin, slice.end);
}

/// Adds chunks r and 2P - 1 - r of 2P to each rank r.
void add_zigzag(ShardLayout& layout, const Slice& document, std::int64_t granule) {
  const int ranks = layout.size();
  const std::vector<Slice> chunks = equal_chunks(document, 2 * ranks, granule);
  for (int rank = 0; rank < ranks; ++rank) {
    add_slice(layout.ranks[rank], chunks[rank]);
    add_slice(layout.ranks[rank], chunks[2 * ranks - 1 - rank]);
  }
}

/// Adds rules that a slice breaks on its own, or after the one before it on the same rank.
void check_slices(const ShardLayout& layout, RequestCheck& found) {
  for (int rank = 0; rank < layout.size(); ++rank) {
    std::int64_t end = 0;
    for (std::size_t i = 0; i < layout.ranks[rank].size(); ++i) {
      const Slice& slice = layout.ranks[rank][i];
      const std::string name = fmt::format("layout.ranks[{}][{}]", rank, i);
      if (slice.begin < 0 || slice.begin >= slice.end || slice.end > layout.tokens)
        found.add(name, text_of(slice), fmt::format("must be tokens of [0, {})", layout.tokens));
      else if (slice.begin < end)
        found.add(name, text_of(slice),
                  fmt::format("must not begin before {}, where another slice ends", end));
      end = std::max(end, slice.end);
    }
  }
}

/// Adds tokens that no rank has, and tokens that two ranks have. Slices must be valid on their own.
void check_cover(const ShardLayout& layout, RequestCheck& found) {
  std::vector<std::tuple<std::int64_t, std::int64_t, int>> slices;
  for (int rank = 0; rank < layout.size(); ++rank) {
    for (const Slice& slice : layout.ranks[rank]) slices.emplace_back(slice.begin, slice.end, rank);
  }
  std::ranges::sort(slices);
  std::int64_t end = 0;
  int last = 0;
  const auto missing = [&](std::int64_t next) {
    if (next > end)
      found.add(fmt::format("tokens {}", text_of({end, next})), "on no rank", "must be on one rank");
  };
  for (const auto& [begin, slice_end, rank] : slices) {
    missing(begin);
    if (begin < end)
      found.add(fmt::format("tokens {}", text_of({begin, std::min(end, slice_end)})),
                fmt::format("on ranks {} and {}", last, rank), "must be on one rank");
    if (slice_end > end) std::tie(end, last) = std::pair(slice_end, rank);
  }
  missing(layout.tokens);
}

}  // namespace

ShardLayout ShardLayout::contiguous(std::int64_t tokens, int ranks, std::int64_t granule) {
  require_chunks({0, tokens}, ranks, granule);
  ShardLayout layout{tokens, std::vector<std::vector<Slice>>(ranks)};
  const std::vector<Slice> chunks = equal_chunks({0, tokens}, ranks, granule);
  for (int rank = 0; rank < ranks; ++rank) add_slice(layout.ranks[rank], chunks[rank]);
  return layout;
}

ShardLayout ShardLayout::zigzag(std::int64_t tokens, int ranks, std::int64_t granule) {
  return zigzag_documents({0, tokens}, ranks, granule);
}

ShardLayout ShardLayout::zigzag_documents(const std::vector<std::int64_t>& cu_seqlens, int ranks,
                                          std::int64_t granule) {
  require_documents(cu_seqlens);
  require_chunks({0, cu_seqlens.back()}, ranks, granule);
  ShardLayout layout{cu_seqlens.back(), std::vector<std::vector<Slice>>(ranks)};
  for (std::size_t i = 1; i < cu_seqlens.size(); ++i)
    add_zigzag(layout, {cu_seqlens[i - 1], cu_seqlens[i]}, granule);
  return layout;
}

std::int64_t ShardLayout::tokens_of(int rank) const {
  std::int64_t sum = 0;
  for (const Slice& slice : ranks.at(static_cast<std::size_t>(rank))) sum += slice.size();
  return sum;
}

std::vector<Violation> violations(const ShardLayout& layout) {
  RequestCheck found;
  if (layout.tokens < 0) found.add("layout.tokens", layout.tokens, "must be at least 0");
  if (layout.ranks.empty()) found.add("layout.ranks", "empty", "must have an entry per rank");
  check_slices(layout, found);
  if (found.empty()) check_cover(layout, found);
  return found.take();
}

std::string to_string(const ShardLayout& layout) {
  std::string text = fmt::format("{} tokens:", layout.tokens);
  for (int rank = 0; rank < layout.size(); ++rank) {
    text += fmt::format("{} {}", rank == 0 ? "" : ";", rank);
    for (const Slice& slice : layout.ranks[rank]) text += " " + text_of(slice);
  }
  return text;
}

}  // namespace fa2
