// Chunks of the global stream.
#pragma once

#include <fa2/context_parallel.h>

#include <cstdint>
#include <vector>

namespace fa2 {

/// Returns `count` consecutive chunks of `whole`, which begin at multiples of `granule` from whole.begin. Their sizes differ by at
/// most one granule; some may be empty.
std::vector<Slice> equal_chunks(const Slice& whole, int count, std::int64_t granule);

/// Appends a slice, unless it is empty. Joins it with the last one if they touch.
void add_slice(std::vector<Slice>& slices, const Slice& slice);

/// @throws InvalidRequest unless `whole` has no negative size, and there is at least one rank and one token per granule.
void require_chunks(const Slice& whole, int ranks, std::int64_t granule);

/// @throws InvalidRequest unless `cu_seqlens` begins with 0 and never decreases.
void require_documents(const std::vector<std::int64_t>& cu_seqlens);

}  // namespace fa2
