// Sequence lengths of a benchmark, packed or in a cache.
#pragma once

#include <tools/sequence_tables.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2::tools {

/// `--lengths SPEC --lengths-k SPEC --batch N --seqlen-q N --page-size N`; for SPEC see LengthSpec.
struct LengthOptions {
  std::string lengths, lengths_k;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> seqlen_q = {};  ///< if given, `lengths` counts keys in a cache
  std::int32_t page_size = 0;

  /// Must be called after `--seqlen` was added, which these options exclude.
  void add_to(CLI::App& verb);
  bool given() const { return !lengths.empty(); }
  /// Returns tables for as many sequences as `--batch`, the list or `tokens` gives. @throws
  /// CLI::ValidationError.
  SequenceTables tables(std::int64_t tokens) const;
  /// Like tables(), for keys in a cache.
  SequenceTables cache_tables(std::int64_t tokens) const;
};

/// Returns tables of sequences with these numbers of keys in a cache. With `page_size`, each sequence has
/// pages of its own, in random order. @throws CLI::ValidationError.
SequenceTables cache_tables(std::vector<std::int32_t> lengths, std::int32_t page_size);

/// A summary of consecutive sequences.
struct LengthSummary {
  std::int64_t batch = 0, total = 0, longest = 0;
  double mean = 0;
};
LengthSummary summary_of(const std::vector<std::int32_t>& cu_seqlens);

}  // namespace fa2::tools
