// A placeholder for problems without pieces of queries, whose texts of scores need nothing of a call. The generator renders this file
// for each other one.
#pragma once
#define FA2_PLACEHOLDER  // how the generator knows this file

#include "attention/common/capture_params.cuh"

namespace fa2 {

/// What few kernels need of a call: `query_pieces` with Config::query_pieces, `capture_map` with Config::score_tiles, and for texts of
/// scores `key_map` if there is a mask, and the list of captures. Host code, for which this is empty, puts them in front of
/// AttentionParams.
struct ScoreCaptures {};

}  // namespace fa2
