// One rank's part in attention over keys that arrive rank by rank: while it attends to the keys of one rank, those of the next one arrive.
//
// Own rows are copied to an outbox, and sent from there. The first stages have own keys, which lie in the outbox. In the others a rank receives keys
// straight from the rank that is the stage's distance below it, and sends to the one as far above. So all ranks have the same number of stages,
// of which some may be empty. Gradients of keys go back the same way. Owners add them to their own in the order of the stages, so that
// every run has the same bits.
#pragma once

#include <fa2/problem.h>
#include <parallel/gather_plan.h>
#include <parallel/interval_plan.h>
#include <parallel/local_sequences.h>
#include <parallel/stream_mask.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace fa2 {

/// Keys of one rank that kernels attend to at once: of each document one range or, if queries see whole ranges alone, several.
struct KeyStage {
  std::int64_t rows = 0;                           ///< keys, by documents
  std::optional<std::int64_t> own = std::nullopt;  ///< of own keys: their first row in the outbox
  std::vector<LocalSequence> sequences;            ///< per document of the rank: all its queries
  std::vector<RowTransfer> gather;                 ///< sends: rows of the outbox; receives: rows of the stage
  std::vector<RowTransfer> returns;  ///< sends: rows of the stage; receives: rows of the stage's arrivals
  std::vector<RowCopy> adds;         ///< rows of arrivals, to rows of the outbox
  std::int64_t arrivals = 0;         ///< rows
};

struct KeyStages {
  std::vector<RowCopy> own;  ///< rows of the rank's tensors, to rows of the outbox
  std::vector<KeyStage> stages;
};

/// Returns the stages of a rank. `problem`: of kernels (RankWork::problem); results must not depend on the numbers of keys.
KeyStages plan_key_stages(const AttentionProblem& problem, const IntervalPlan& plan, const StreamMask& mask,
                          int rank);

}  // namespace fa2
