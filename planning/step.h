// One launch of a plan, and how it is made of a call.
#pragma once

#include <fa2/args.h>
#include <fa2/config.h>
#include <fa2/problem.h>
#include <operation/operands/operands.h>
#include <operation/operands/workspace.h>
#include <runtime/kernel.h>
#include <runtime/launch_counters.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace fa2 {

/// What a plan's steps compute on; all of it outlives the call.
struct Call {
  const AttentionProblem& problem;         ///< the plan's
  const AttentionArgs& args;               ///< valid for it
  OperandList operands;                    ///< of both
  WrittenBytes* written = nullptr;         ///< by the steps of this run so far; null for a step of its own
  const BackwardArgs* backward = nullptr;  ///< whose forward `args` are, where the plan is a backward's
  std::byte* lent = nullptr;               ///< what serves as scratch where `args` have no workspace
};

/// The one parameter struct of a launch, whichever kernel's it is.
class ParamsBuffer {
 public:
  template <class Params>
  Params& emplace(const Params& params) {
    static_assert(std::is_trivially_copyable_v<Params>, "a launch copies bytes");
    static_assert(sizeof(Params) <= kBytes && alignof(Params) <= kAlignment, "a buffer holds any kernel's");
    size_ = sizeof(Params);
    return *::new (bytes_) Params(params);
  }
  /// What was emplaced, of the same type.
  template <class Params>
  const Params& as() const {
    return *std::launder(reinterpret_cast<const Params*>(bytes_));
  }
  /// Overwrites a member of what was emplaced.
  template <class Member>
  void put(std::size_t offset, const Member& member) {
    std::memcpy(bytes_ + offset, &member, sizeof member);
  }

  const void* data() const { return bytes_; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kBytes = 1536, kAlignment = 64;

  alignas(kAlignment) std::byte bytes_[kBytes];  // not initialised: one is made by every call
  std::size_t size_ = 0;
};

/// What a step does with an operand.
struct OperandUse {
  Role role;
  Access access;
};

/// A kernel of a plan, and its launch. Not changed once it is part of a plan; usable from any thread then.
struct Step {
  std::shared_ptr<const Kernel> kernel;
  KernelConfig config;
  LaunchShape shape;
  std::vector<OperandUse> uses;  ///< the operands that it touches
  ParamsBuffer constants{};      ///< its parameters as far as they are the same for every call
  /// Makes of `constants` the parameters of a call, in the current context.
  void (*fill)(const Step& step, const Call& call, ParamsBuffer& params) = nullptr;
  WorkspacePart workspace;
  /// Where a call has no workspace, they give each launch its part. Null if it needs none.
  std::shared_ptr<LaunchCounters> counters;
  WorkspacePart scratch;  ///< beside its part, where that has to be zeros
};

/// Gives the parts that the step works in their places.
inline void add(Step& step, WorkspaceLayout& layout) {
  layout.add(step.workspace);
  layout.add(step.scratch);
}

/// Launches in the current context, `times` times. No lock and no allocation, except by the interpreter and where
/// a launch without a workspace is captured.
void launch(const Step& step, const Call& call, Stream stream, int times = 1);

}  // namespace fa2
