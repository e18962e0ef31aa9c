// Chunks of whole granules, the last of which may be short.
#include <fmt/format.h>
#include <parallel/chunks.h>
#include <parallel/request_check.h>

#include <algorithm>

namespace fa2 {

std::vector<Slice> equal_chunks(const Slice& whole, int count, std::int64_t granule) {
  const std::int64_t granules = (whole.size() + granule - 1) / granule;
  // Rounded down, so that the last chunk, whose last granule may be short, has no fewer granules than others.
  const auto border = [&](int i) {
    return std::min(whole.end,
                    whole.begin + granules / count * i * granule + granules % count * i / count * granule);
  };
  std::vector<Slice> chunks;
  for (int i = 0; i < count; ++i) chunks.push_back({border(i), border(i + 1)});
  return chunks;
}

void add_slice(std::vector<Slice>& slices, const Slice& slice) {
  if (slice.size() == 0) return;
  if (!slices.empty() && slices.back().end == slice.begin)
    slices.back().end = slice.end;
  else
    slices.push_back(slice);
}

void require_chunks(const Slice& whole, int ranks, std::int64_t granule) {
  RequestCheck found;
  if (whole.size() < 0) found.add("tokens", whole.size(), "must be at least 0");
  if (ranks < 1) found.add("ranks", ranks, "must be at least 1");
  if (granule < 1) found.add("granule", granule, "must be at least 1");
  found.require_none();
}

void require_documents(const std::vector<std::int64_t>& cu_seqlens) {
  RequestCheck found;
  if (cu_seqlens.empty()) found.add("cu_seqlens", "empty", "must be 0, ..., tokens");
  if (!cu_seqlens.empty() && cu_seqlens.front() != 0)
    found.add("cu_seqlens[0]", cu_seqlens.front(), "must be 0");
  for (std::size_t i = 1; i < cu_seqlens.size(); ++i) {
    if (cu_seqlens[i] < cu_seqlens[i - 1])
      found.add(fmt::format("cu_seqlens[{}]", i), cu_seqlens[i],
                fmt::format("must be at least {}, the entry before it", cu_seqlens[i - 1]));
  }
  found.require_none();
}

}  // namespace fa2
