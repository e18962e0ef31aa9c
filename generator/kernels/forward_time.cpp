#include <generator/head_packing.h>
#include <generator/kernel_kind.h>
#include <generator/kernels/forward_time.h>
#include <generator/key_value_format.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>

#include <algorithm>
#include <cmath>

namespace fa2 {
namespace {

// Of an H100. Times in microseconds.
constexpr double kSms = 132;
constexpr double kBandwidth = 2.9e6, kBandwidthOfSm = 60e3;  // bytes per microsecond
constexpr double kPair = 0.109e-3 / 256;  // of a query, a key and a column of K or V, on one SM
constexpr double kStart = 5;
constexpr double kMerge = 9, kMergeOfFewRows = 5, kMergeOfWideRows = 25;
constexpr double kSplitLoop = 1.1;  // split tiles have one buffer of queries, and an end that takes longer
constexpr int kFewRows = 64;

/// Returns the keys that the queries of a tile see together, at most.
double keys_of_tile(const AttentionProblem& p, double rows) {
  const auto keys = static_cast<double>(visible_keys(p));
  const auto width = window_width(p);
  return width ? std::min(keys, static_cast<double>(*width) + rows) : keys;
}

}  // namespace

double estimated_time(const AttentionProblem& problem, const KernelConfig& config) {
  const AttentionProblem p = with_mean_lengths(problem);
  const double sequences = static_cast<double>(p.batch) * static_cast<double>(p.heads_kv);
  const auto tiles = static_cast<double>(most_query_tiles(p, config));
  if (sequences == 0 || tiles == 0) return 0;
  const double heads = head_packing(p, config).heads;
  const double keys =
      std::max(1.0, keys_of_tile(p, std::min(config.tile_m / heads, static_cast<double>(p.seqlen_q))));
  const double seen = std::min(1.0, visible_pairs(p) / (static_cast<double>(p.seqlen_q) * keys));

  // Some tiles may run side by side on an SM, if there are enough.
  const double at_once = std::clamp(std::ceil(tiles / kSms), 1.0, static_cast<double>(config.ctas_per_sm));
  const double columns = p.head_dim + key_value_format(p).head_dim_v;
  const auto bytes_per_key = static_cast<double>(key_value_format(p).bytes_per_key());
  const double time_per_key =
      at_once * std::max(config.tile_m * columns * kPair, bytes_per_key / kBandwidthOfSm);
  const double rounds = tiles / (kSms * at_once);
  const double reading = sequences * keys * bytes_per_key / kBandwidth;
  if (splits_keys(config)) {
    // Blocks that compute several tiles of a sequence compute them in turn, and each time its keys are no longer in L2.
    const double passes = tiles > kSms ? tiles / sequences : 1;
    const bool has_few_rows = static_cast<double>(p.seqlen_q) * heads <= kFewRows;
    const double merge = has_few_rows ? kMergeOfFewRows : columns > 256 ? kMergeOfWideRows : kMerge;
    return kStart + merge + std::max(kSplitLoop * rounds * seen * keys * time_per_key, passes * reading);
  }
  // Tiles of unequal length leave no gaps if there are enough of them: the longest come first.
  const double whole_rounds = seen < 0.75 ? std::max(1.0, rounds * seen) : std::ceil(rounds);
  return kStart + std::max(whole_rounds * keys * time_per_key, reading);
}

}  // namespace fa2
