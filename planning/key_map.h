// The step that makes the map of blocks for a kernel with the text of a mask.
#pragma once

#include <planning/plan.h>
#include <planning/planner.h>
#include <runtime/kernel.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace fa2 {

/// Returns the choice of the kernel that makes the map for a kernel with `config`.
ConfigChoice key_map_choice(const KernelConfig& config);

/// Adds the step that makes the map for a step that reads it, and says there where it lies: `begin` in the plan's scratch.
void add_key_map(Plan& plan, const AttentionProblem& problem, Step& reader,
                 std::shared_ptr<const Kernel> kernel, std::size_t begin);

/// Launches a step that makes a map into `bits`, instead of the scratch that it has in a plan.
void launch_map(Step map, const std::shared_ptr<std::byte>& bits, const Call& call, Stream stream);

/// What a map says of the blocks of all its tiles.
struct MapCounts {
  std::int64_t blocks = 0;
  std::int64_t seen = 0;
  std::int64_t whole = 0;  ///< of those seen: whose every pair the text shows

  /// Whether so many blocks are shown in part that smaller ones save more than their tiles cost.
  bool are_mostly_partial() const { return 4 * (seen - whole) >= seen && seen > 0; }
};

/// Makes the map that is the same in every call now, in memory of the plan, and removes the step that would make it: that of a mask
/// that captures nothing, for sequences of known lengths. The plan's explanation says what the map shows. Returns nothing if the plan
/// has no such map. The plan's device's context must be current. @throws CudaError, KernelFault.
std::optional<MapCounts> make_constant_map(Plan& plan);

}  // namespace fa2
