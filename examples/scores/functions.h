// The functions that fa2_scores shows, each in a file of its own.
#pragma once

#include <vector>

#include "function.h"

namespace example {

Function relative_position(const ScoreSizes& sizes);
Function alibi(const ScoreSizes& sizes);
Function softcap(const ScoreSizes& sizes);
Function prefix_lm(const ScoreSizes& sizes);
Function documents(const ScoreSizes& sizes);
Function sink_window(const ScoreSizes& sizes);
Function dilated(const ScoreSizes& sizes);
Function neighbourhood(const ScoreSizes& sizes);
Function draft_tree(const ScoreSizes& sizes);
Function block_list(const ScoreSizes& sizes);
Function pair_bias(const ScoreSizes& sizes);
Function block_diffusion(const ScoreSizes& sizes);

/// Returns all of them.
inline std::vector<Function> functions(const ScoreSizes& sizes) {
  return {relative_position(sizes), alibi(sizes),       softcap(sizes),   prefix_lm(sizes),
          documents(sizes),         sink_window(sizes), dilated(sizes),   neighbourhood(sizes),
          draft_tree(sizes),        block_list(sizes),  pair_bias(sizes), block_diffusion(sizes)};
}

}  // namespace example
