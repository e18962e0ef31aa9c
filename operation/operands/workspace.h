// The memory in which a plan's launches work, in addition to their operands.
#pragma once

#include <core/element_type.h>

#include <algorithm>
#include <cstddef>

namespace fa2 {

/// Alignment of a workspace and of each of its parts, in bytes.
inline constexpr int kWorkspaceAlignment = 256;

/// Returns `bytes` rounded up, so that the next part is aligned.
constexpr std::size_t whole_part(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

/// What one step uses of the counters or of the scratch.
struct WorkspacePart {
  std::size_t bytes = 0;  ///< 0: the step needs none
  std::size_t param = 0;  ///< offset of the pointer to the part; within the step's parameters
  Access access = Access::read_write;
  std::size_t begin = 0;  ///< offset of the part; within the plan's counters or its scratch
};

/// The most bytes of counters that a forward has.
inline constexpr std::size_t kMostForwardCounters = 4096;

/// The workspace of a plan: first the counters of each step, which every launch finds zero and leaves zero; then scratch, which
/// all steps share and which may hold anything when a run begins.
struct WorkspaceLayout {
  std::size_t counter_bytes = 0;
  std::size_t scratch_bytes = 0;
  /// The least offset of scratch. Plans that share a workspace have the most counters of all here, so that the scratch of one is not
  /// where another has counters.
  std::size_t least_scratch = 0;

  std::size_t scratch_begin() const {
    return scratch_bytes == 0 ? counter_bytes : std::max(counter_bytes, least_scratch);
  }
  std::size_t bytes() const { return scratch_begin() + scratch_bytes; }
};

}  // namespace fa2
