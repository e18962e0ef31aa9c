// Tuning records, and the problem and GPU that they are for.
#pragma once

#include <autotune/bucket.h>
#include <autotune/config_choice.h>
#include <autotune/tuning_store.h>
#include <generator/kernel_source.h>

#include <string>

namespace fa2::test {

/// Returns a record of the default config, on a GPU that does not exist, for 64 heads and as many queries as
/// keys.
inline TuningRecord record(const std::string& traits = "f16_d64_none", int seqlen_log2 = 10, double us = 90) {
  return {.device = "GPU A",
          .arch = "sm_80",
          .sm_count = 108,
          .bucket = {.traits = traits,
                     .group_log2 = 0,
                     .heads_log2 = 6,
                     .sizes = {{"seqlen_q", seqlen_log2}, {"seqlen_k", seqlen_log2}}},
          .config = {},
          .us = us,
          .heuristic_us = 100,
          .templates = {},
          .date = "2026-01-01T00:00:00Z"};
}

inline PlannedProblem some_problem(int head_dim = 64) {
  return PlannedProblem({.head_dim = head_dim, .batch = 4, .heads_q = 16, .seqlen_q = 1024, .seqlen_k = 1024},
                        {})
      .normalized();
}

inline Target some_gpu() {
  return {*find_arch("sm_80"), "Some GPU", 108};
}

/// Returns a record that `config` takes 90 us on `gpu`, and the heuristic's config 100 us.
inline TuningRecord record_of(const Target& gpu, const Bucket& bucket, const KernelConfig& config) {
  return {.device = gpu.device,
          .arch = std::string(gpu.arch.name),
          .sm_count = gpu.sm_count,
          .bucket = bucket,
          .config = config,
          .us = 90,
          .heuristic_us = 100,
          .templates = template_digest(config, gpu.arch),
          .date = "2026-01-01"};
}

/// Returns whether problem_of() returns a problem of the bucket, apart from its number of tiles, which it does not
/// preserve.
inline bool is_found_again(const Bucket& bucket, const PlannedProblem& traits) {
  Bucket found = bucket_of(problem_of(bucket, traits), bucket.pass);
  found.tiles_half_octaves = bucket.tiles_half_octaves;
  return found == bucket;
}

}  // namespace fa2::test
