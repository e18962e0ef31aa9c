// The runs of a plan, for callers that have the operands already.
#pragma once

#include <fa2/attention.h>
#include <fa2/backward.h>
#include <operation/operands/operands.h>
#include <planning/held_maps.h>
#include <planning/plan.h>

namespace fa2 {

/// Validates the arguments and launches. `operands` must list the tensors of the plan's problem and `args`, with the size of
/// the plan's workspace.
void run(const Plan& plan, const AttentionArgs& args, const Operands& operands, Stream stream,
         CounterPlace counters = CounterPlace::workspace);
void run(const Plan& plan, const BackwardArgs& args, const BackwardOperands& operands, Stream stream);

/// Validates the arguments, whose block_map is ignored, and makes the plan's map of blocks in memory of `allocate`.
void map_blocks(const Plan& plan, const AttentionArgs& args, const BlockMap& map, Stream stream,
                const AllocateMap& allocate = map_memory);
void map_blocks(const Plan& plan, const BackwardArgs& args, const BlockMap& map, Stream stream,
                const AllocateMap& allocate = map_memory);

/// Returns the arguments of a call that reads the map.
AttentionArgs with_map(AttentionArgs args, const BlockMap& map);
BackwardArgs with_map(BackwardArgs args, const BlockMap& map);

}  // namespace fa2
