// Tables of made-up lengths.
#include <fmt/format.h>
#include <tools/length_options.h>
#include <tools/length_spec.h>

#include <algorithm>
#include <limits>

namespace fa2::tools {
namespace {

std::vector<std::int32_t> borders_of(const char* flag, const LengthSpec& spec, std::int64_t batch) {
  if (spec.count() && *spec.count() != batch)
    throw CLI::ValidationError(flag, fmt::format("{} lengths for {} sequences", *spec.count(), batch));
  std::int64_t end = 0;
  std::vector<std::int32_t> borders = {0};
  for (const std::int32_t length : spec.lengths(batch)) {
    end += length;
    if (end > std::numeric_limits<std::int32_t>::max())
      throw CLI::ValidationError(flag, "more than 2147483647 tokens in all; lower --batch");
    borders.push_back(static_cast<std::int32_t>(end));
  }
  return borders;
}

/// As many sequences as hold `tokens`, at least 1.
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
  verb.add_option("--lengths-k", lengths_k, "Of their keys, if not --lengths")->needs(spec);
  verb.add_option("--batch", batch, "How many of them (default: --tokens by their mean)")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(spec);
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

LengthSummary summary_of(const std::vector<std::int32_t>& cu_seqlens) {
  LengthSummary summary{.batch = static_cast<std::int64_t>(cu_seqlens.size()) - 1,
                        .total = cu_seqlens.back()};
  for (std::size_t b = 1; b < cu_seqlens.size(); ++b)
    summary.longest = std::max(summary.longest, std::int64_t{cu_seqlens[b]} - cu_seqlens[b - 1]);
  summary.mean = static_cast<double>(summary.total) / static_cast<double>(summary.batch);
  return summary;
}

}  // namespace fa2::tools
