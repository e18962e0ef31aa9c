// A placeholder for problems whose texts of scores capture nothing. The generator renders this file for each other one.
#pragma once
#define FA2_PLACEHOLDER  // how the generator knows this file

#include "attention/common/capture_params.cuh"

namespace fa2 {

/// What texts of scores read beside positions. Host code, for which this is empty, puts the CaptureParams of a call in front of
/// AttentionParams.
struct ScoreCaptures {};

}  // namespace fa2
