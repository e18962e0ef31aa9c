// Makes a tuning record from the values that tests vary.
#pragma once

#include <autotune/tuning_store.h>

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

}  // namespace fa2::test
