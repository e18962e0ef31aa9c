// Sequences of a benchmark, packed or in a cache.
#pragma once

#include <tools/sequence_tables.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2::tools {

/// `--lengths SPEC --lengths-k SPEC --batch N --seqlen-q N --page-size N`; SPEC as LengthSpec takes it.
struct LengthOptions {
  std::string lengths, lengths_k;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> seqlen_q = {};  ///< then `lengths` are those of keys in a cache
  std::int32_t page_size = 0;

  /// After `--seqlen`, which they exclude.
  void add_to(CLI::App& verb);
  bool given() const { return !lengths.empty(); }
  /// Of as many sequences as `--batch`, or the list, or `tokens` says. @throws CLI::ValidationError.
  SequenceTables tables(std::int64_t tokens) const;
  /// The same of keys in a cache.
  SequenceTables cache_tables(std::int64_t tokens) const;
};

/// Of sequences with so many keys in a cache, which only the device knows; with `page_size` in pages, no two sequences' the
/// same, in random order. @throws CLI::ValidationError.
SequenceTables cache_tables(std::vector<std::int32_t> lengths, std::int32_t page_size);

/// Of sequences, one after the other.
struct LengthSummary {
  std::int64_t batch = 0, total = 0, longest = 0;
  double mean = 0;
};
LengthSummary summary_of(const std::vector<std::int32_t>& cu_seqlens);

}  // namespace fa2::tools
