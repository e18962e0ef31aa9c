// What of a position the text of a mask reads.
#pragma once

#include <fa2/score_text.h>

namespace fa2 {

/// Which coordinates may decide whether a key is seen, apart from query and key. Found in the text, so it may say yes of a coordinate
/// that does not matter, never no of one that does.
struct MaskReads {
  bool batch = true;
  bool head = true;
};

MaskReads reads_of_mask(const ScoreTexts& texts);

}  // namespace fa2
