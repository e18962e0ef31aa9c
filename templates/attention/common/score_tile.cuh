// The two orientations of a tile of scores.
#pragma once

namespace fa2 {

/// What the rows and the columns of a tile of scores are; the backward has both.
enum class ScoreTile { queries_by_keys, keys_by_queries };

}  // namespace fa2
