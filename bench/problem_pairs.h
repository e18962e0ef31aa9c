// Pairs of problems that share a bucket, and so a tuning record.
#pragma once

#include <autotune/bucket.h>
#include <generator/kernel_spec.h>
#include <generator/visible_keys.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>

namespace fa2::bench {

struct ProblemPair {
  std::string_view kind;  ///< "decode", "chunk", "prefill" or "forward"
  PlannedProblem first, second;
};

/// Draws problems with any group size, small enough that a search measures them unchanged. A seed gives the
/// same pairs on every machine.
class ProblemPairs {
 public:
  explicit ProblemPairs(std::uint64_t seed) : random_(seed) {}

  /// Returns a pair of problems. The kinds take turns.
  ProblemPair next() {
    constexpr std::array<std::string_view, 4> kKinds = {"decode", "chunk", "prefill", "forward"};
    const std::string_view kind = kKinds[drawn_++ % kKinds.size()];
    for (;;) {
      const PlannedProblem first = draw(kind);
      if (!is_small(first)) continue;
      for (int attempt = 0; attempt < 1000; ++attempt) {
        const PlannedProblem second = near(first);
        if (second != first && is_small(second) && bucket_of(second) == bucket_of(first))
          return {kind, first, second};
      }
    }
  }

 private:
  std::int64_t within(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }

  /// Returns a size. Small ones are as frequent as large ones.
  std::int64_t size(std::int64_t least, std::int64_t most) {
    std::int64_t range = least;
    for (auto octaves = within(0, std::lround(std::log2(double(most) / double(least)))); octaves > 0;
         --octaves)
      range = std::min(2 * range, most);
    return within(std::max(least, range / 2), range);
  }

  PlannedProblem draw(std::string_view kind) {
    PlannedProblem p;
    p.head_dim = within(0, 2) == 0 ? 64 : 128;
    p.heads_kv = std::int64_t{1} << within(0, 3);
    p.heads_q = p.heads_kv * within(1, 16);
    if (kind == "decode") p.batch = size(1, 128), p.seqlen_q = size(1, 8), p.seqlen_k = size(512, 65536);
    if (kind == "chunk") p.batch = size(1, 4), p.seqlen_q = size(16, 512), p.seqlen_k = size(2048, 65536);
    if (kind == "prefill") p.batch = size(1, 16), p.seqlen_q = size(128, 4096), p.seqlen_k = 2 * p.seqlen_q;
    if (kind == "forward") p.batch = size(1, 32), p.seqlen_q = p.seqlen_k = size(256, 8192);
    if (kind == "prefill" || within(0, 1) == 1) p.mask = MaskKind::causal_bottom_right;
    return p.normalized();
  }

  /// Returns a problem whose sizes are up to half an octave away.
  PlannedProblem near(PlannedProblem p) {
    const auto nudged = [&](std::int64_t size) { return within((2 * size + 2) / 3, (3 * size + 1) / 2); };
    const std::int64_t group = nudged(p.heads_q / p.heads_kv);
    p.heads_kv = nudged(p.heads_kv);
    p.heads_q = group * p.heads_kv;
    p.batch = nudged(p.batch);
    const bool is_square = p.seqlen_q == p.seqlen_k;
    p.seqlen_q = nudged(p.seqlen_q);
    p.seqlen_k = is_square ? p.seqlen_q : nudged(p.seqlen_k);
    return p;
  }

  /// Returns whether a problem has at most 1 GB of keys and values, and takes a few milliseconds.
  static bool is_small(const PlannedProblem& p) {
    const double bytes = 4.0 * double(p.batch * p.heads_kv * p.seqlen_k) * p.head_dim;
    const double flops = 4.0 * double(p.batch * p.heads_q) * p.head_dim * visible_pairs(p);
    return bytes <= 1e9 && flops <= 1e12;
  }

  std::mt19937_64 random_;
  std::size_t drawn_ = 0;
};

}  // namespace fa2::bench
