// Tables of generated lengths.
#include <fmt/format.h>
#include <tools/length_options.h>
#include <tools/length_spec.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace fa2::tools {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

std::vector<std::int32_t> lengths_of(const char* flag, const LengthSpec& spec, std::int64_t batch) {
  if (spec.count() && *spec.count() != batch)
    throw CLI::ValidationError(flag,
                               fmt::format("{} lengths, must be {}: one per sequence", *spec.count(), batch));
  return spec.lengths(batch);
}

std::vector<std::int32_t> borders_of(const char* flag, const LengthSpec& spec, std::int64_t batch) {
  std::int64_t end = 0;
  std::vector<std::int32_t> borders = {0};
  for (const std::int32_t length : lengths_of(flag, spec, batch)) {
    end += length;
    if (end > kMost)
      throw CLI::ValidationError(flag, "must add up to at most 2147483647 tokens: lower --batch");
    borders.push_back(static_cast<std::int32_t>(end));
  }
  return borders;
}

/// Returns how many sequences hold `tokens`; at least 1.
std::int64_t default_batch(const LengthSpec& spec, std::int64_t tokens) {
  const auto count = static_cast<std::int64_t>(static_cast<double>(tokens) / std::max(spec.mean(), 1.0));
  return spec.count().value_or(std::max<std::int64_t>(1, count));
}

}  // namespace

void LengthOptions::add_to(CLI::App& verb) {
  auto* spec = verb.add_option(
      "--lengths", lengths,
      "Packed sequences instead: equal:N, lognormal:MEAN, lognormal:MEAN:SIGMA, uniform:LEAST:MOST, N,N,...");
  spec->excludes("--seqlen");
  auto* of_keys = verb.add_option("--lengths-k", lengths_k, "Lengths of keys, if not --lengths")->needs(spec);
  verb.add_option("--batch", batch, "Number of sequences (default: --tokens / mean length)")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(spec);
  auto* queries =
      verb.add_option("--seqlen-q", seqlen_q, "Queries per sequence; keys lie in a cache and have --lengths")
          ->check(CLI::PositiveNumber)
          ->needs(spec)
          ->excludes(of_keys);
  verb.add_option("--page-size", page_size, "Keys per page of the cache, pages in random order; 0: not paged")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->needs(queries);
}

SequenceTables LengthOptions::tables(std::int64_t tokens) const {
  const LengthSpec queries("--lengths", lengths);
  const LengthSpec keys("--lengths-k", lengths_k.empty() ? lengths : lengths_k);
  const std::int64_t count = batch.value_or(default_batch(queries, tokens));
  SequenceTables tables;
  tables.cu_seqlens_q = borders_of("--lengths", queries, count);
  tables.cu_seqlens_k = borders_of("--lengths-k", keys, count);
  return tables;
}

SequenceTables LengthOptions::cache_tables(std::int64_t tokens) const {
  const LengthSpec keys("--lengths", lengths);
  return tools::cache_tables(lengths_of("--lengths", keys, batch.value_or(default_batch(keys, tokens))),
                             page_size);
}

SequenceTables cache_tables(std::vector<std::int32_t> lengths, std::int32_t page_size) {
  SequenceTables tables;
  tables.seqused_k = std::move(lengths);
  if (page_size == 0) return tables;
  const auto pages_of = [&](std::int64_t length) { return (length + page_size - 1) / page_size; };
  std::int64_t used = 0;
  tables.pages_of_row = 1;
  for (const std::int32_t length : tables.seqused_k) {
    used += pages_of(length);
    tables.pages_of_row = std::max(tables.pages_of_row, pages_of(length));
  }
  const std::int64_t batch = static_cast<std::int64_t>(tables.seqused_k.size());
  if (batch * tables.pages_of_row > kMost)
    throw CLI::ValidationError(
        "--page-size",
        fmt::format("{} sequences of up to {} pages, must be at most {} pages: raise --page-size", batch,
                    tables.pages_of_row, kMost));
  std::vector<std::int32_t> pages(static_cast<std::size_t>(used));
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), std::mt19937(1));
  tables.page_table.resize(static_cast<std::size_t>(batch * tables.pages_of_row));
  auto next = pages.begin();
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t count = pages_of(tables.seqused_k[static_cast<std::size_t>(b)]);
    std::copy_n(next, count, tables.page_table.begin() + b * tables.pages_of_row);
    next += count;
  }
  return tables;
}

LengthSummary summary_of(const std::vector<std::int32_t>& cu_seqlens) {
  LengthSummary summary{.batch = static_cast<std::int64_t>(cu_seqlens.size()) - 1,
                        .total = cu_seqlens.back()};
  for (std::size_t b = 1; b < cu_seqlens.size(); ++b)
    summary.longest = std::max(summary.longest, std::int64_t{cu_seqlens[b]} - cu_seqlens[b - 1]);
  summary.mean = static_cast<double>(summary.total) / static_cast<double>(summary.batch);
  return summary;
}

}  // namespace fa2::tools
