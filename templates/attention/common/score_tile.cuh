// The two orientations of a tile of scores.
#pragma once

namespace fa2 {

/// The rows and columns of a score tile. The backward uses both orientations.
enum class ScoreTile { queries_by_keys, keys_by_queries };

}  // namespace fa2
