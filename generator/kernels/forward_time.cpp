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

// These numbers are of an H100. Times are in microseconds.
constexpr double kSms = 132;
constexpr double kBandwidth = 2.9e6, kBandwidthOfSm = 50e3;  // bytes per microsecond
constexpr double kPair = 0.109e-3 / 256;  // of a query, a key and a column of K or V, on one SM
constexpr double kL2 = 50e6;              // bytes
constexpr double kStart = 5;
constexpr double kGap = 0.4;  // rounds
constexpr double kMerge = 9, kMergeOfWideRows = 25;
constexpr double kMergeOfFewRows = 5, kMergeOfFewWideRows = 9;
constexpr double kSplitLoop = 1.1;  // split tiles have one buffer of queries, and an end that takes longer
constexpr int kFewRows = 64;

/// What tiles pass over.
struct Keys {
  double most;  ///< of any tile
  double seen;  ///< share of `most` that tiles pass over on average
};

/// `queries`: of a tile. Tiles pass over whole KV blocks of `tile_n` keys; a window or a chunk begins anywhere
/// in one.
Keys keys_of_tiles(const AttentionProblem& p, double queries, double tile_n) {
  const auto whole_blocks = [&](double keys) { return std::ceil(keys / tile_n) * tile_n; };
  const auto keys = std::max(1.0, static_cast<double>(visible_keys(p)));
  const auto width = window_width(p);
  if (width && static_cast<double>(*width) + queries < keys) {
    const double most = static_cast<double>(*width) + queries + tile_n / 2;
    return {whole_blocks(most), 1 - (static_cast<double>(*width) - *mean_width(p)) / most};
  }
  const double seen = visible_pairs(p) / (static_cast<double>(p.seqlen_q) * keys);
  return {whole_blocks(keys), std::min(1.0, seen)};
}

double merge_time(const AttentionProblem& p, double heads_of_tile, double columns) {
  const bool is_wide = columns > 256;
  if (static_cast<double>(p.seqlen_q) * heads_of_tile <= kFewRows)
    return is_wide ? kMergeOfFewWideRows : kMergeOfFewRows;
  return is_wide ? kMergeOfWideRows : kMerge;
}

/// Returns how often split tiles read the keys of a sequence from memory. If thread blocks can be dealt out to all of its tiles,
/// tiles read them together (templates/attention/forward/split_tiles.cuh). Else a block that computes several tiles does so one after
/// the other, and blocks that share one tile are at other keys than those of the next. L2 holds what lies between, unless that is too
/// much.
double passes_over_keys(const AttentionProblem& p, double tiles, double tiles_of_sequence, double bytes) {
  constexpr double kLeastBusy = 0.75;
  const double busy = std::floor(kSms / tiles_of_sequence) * tiles_of_sequence / kSms;
  if (busy >= kLeastBusy && !window_width(p) && !p.batch_invariant && !p.dropout) return 1;
  if (tiles > kSms) return std::min(tiles_of_sequence, tiles / kSms);
  return bytes / 4 > kL2 ? std::min(tiles_of_sequence, 3.0) : 1;
}

}  // namespace

double estimated_time(const AttentionProblem& problem, const KernelConfig& config) {
  const AttentionProblem p = with_mean_lengths(problem);
  const double sequences = static_cast<double>(p.batch) * static_cast<double>(p.heads_kv);
  const auto tiles = static_cast<double>(most_query_tiles(p, config));
  if (sequences == 0 || tiles == 0) return 0;
  const double heads = head_packing(p, config).heads;
  const auto [keys, seen] =
      keys_of_tiles(p, std::min(config.tile_m / heads, static_cast<double>(p.seqlen_q)), config.tile_n);

  // Some tiles may run side by side on an SM, if there are enough.
  const double at_once = std::clamp(std::ceil(tiles / kSms), 1.0, static_cast<double>(config.ctas_per_sm));
  const double columns = p.head_dim + key_value_format(p).head_dim_v;
  const auto bytes_per_key = static_cast<double>(key_value_format(p).bytes_per_key());
  const double time_per_key =
      at_once * std::max(config.tile_m * columns * kPair, bytes_per_key / kBandwidthOfSm);
  const double rounds = tiles / (kSms * at_once), reading = sequences * keys * bytes_per_key / kBandwidth;
  if (splits_keys(config)) {
    const double passes = passes_over_keys(p, tiles, tiles / sequences, sequences * keys * bytes_per_key);
    return kStart + merge_time(p, heads, columns) +
           std::max(kSplitLoop * rounds * seen * keys * time_per_key, passes * reading);
  }
  // Tiles of unequal length leave small gaps if there are enough of them: the longest come first.
  const bool differ = p.varlen || seen < 0.75;
  const double whole_rounds =
      differ ? std::max(1.0, std::min(rounds + kGap, std::ceil(rounds)) * seen) : std::ceil(rounds);
  return kStart + std::max(whole_rounds * keys * time_per_key, reading);
}

}  // namespace fa2
