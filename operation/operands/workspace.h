// The memory that a plan's steps work in, beside their operands.
#pragma once

#include <runtime/element_type.h>

#include <cstddef>

namespace fa2 {

/// Of a workspace and of every part, in bytes.
inline constexpr int kWorkspaceAlignment = 256;

/// Of a part, that the next begins where it may.
constexpr std::size_t whole_part(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

/// What a step works in: zeros when a launch begins, and when it ends; unless it is scratch, which one step writes and
/// others read.
struct WorkspacePart {
  std::size_t bytes = 0;  ///< 0: the step needs none
  bool is_scratch = false;
  Access access = Access::read_write;
  std::size_t param = 0;  ///< offset in the step's parameters of the pointer to it
  std::size_t begin = 0;  ///< offset in the plan's workspace, from its layout
};

/// The parts of a plan's steps, one after another.
struct WorkspaceLayout {
  std::size_t bytes = 0;  ///< of all parts

  void add(WorkspacePart& part) {
    part.begin = bytes;
    bytes += whole_part(part.bytes);
  }
};

}  // namespace fa2
