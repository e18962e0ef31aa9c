// Rules of kernels to which TMA brings tiles of the capture that has an element per score.
#pragma once

#include <core/text_reads.h>
#include <fa2/score_text.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>
#include <generator/kernels/rules.h>

#include <cstddef>
#include <vector>

namespace fa2::score_tile_rules {

/// Returns the number of the capture, or kNoCapture.
inline int capture_of(const AttentionProblem& problem) {
  return problem.score_text == 0 ? kNoCapture : capture_per_score(problem.score_text);
}

inline bool has_capture(const AttentionProblem& problem) {
  return capture_of(problem) != kNoCapture;
}

/// Returns the bytes of one element. The problem must have the capture.
inline int capture_bytes(const AttentionProblem& problem) {
  const auto number = static_cast<std::size_t>(capture_of(problem));
  return score_texts(problem.score_text).captures[number].type == CaptureType::f32 ? 4 : 2;
}

/// Returns the bytes of a tile in shared memory; 0 for a config without tiles.
inline int tile_bytes(const AttentionTraits& traits, const KernelConfig& config) {
  if (config.score_tiles == 0 || !has_capture(traits)) return 0;
  return config.tile_m * config.tile_n * capture_bytes(traits);
}

/// Returns whether the kernel adds dS to the gradient of a capture that is the bias.
inline bool adds_bias_gradient(const AttentionProblem& problem, const KernelConfig& config) {
  return config.score_tiles != 0 && sums_dq(pass_of(config)) && !problem.softcap && has_capture(problem) &&
         capture_that_is_bias(problem.score_text) != kNoCapture;
}

inline void check(const AttentionTraits& traits, const KernelConfig& config, BrokenRules& rules) {
  rules.expect(config.score_tiles == 0 || has_capture(traits),
               "score_tiles = 1 without a text of scores that reads a capture per score");
}

/// Appends what templates/attention/common/staged_scores.cuh needs. `queries`, `keys`: of the tile of a warpgroup.
inline void add_constants(const KernelSpec& spec, int queries, int keys,
                          std::vector<RenderedConstant>& constants) {
  if (spec.config.score_tiles == 0) return;
  constants.insert(constants.end(), {{"staged_queries", queries},
                                     {"staged_keys", keys},
                                     {"staged_bytes", capture_bytes(spec.traits)},
                                     {"staged_pairs", !sums_dq(pass_of(spec.config))},
                                     {"staged_capture", capture_of(spec.traits)}});
}

}  // namespace fa2::score_tile_rules
