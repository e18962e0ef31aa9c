// One launch of a plan, and how a call turns into it.
#pragma once

#include <core/text_reads.h>
#include <fa2/args.h>
#include <fa2/config.h>
#include <fa2/problem.h>
#include <fa2/score_text.h>
#include <generator/key_map_layout.h>
#include <operation/operands/operands.h>
#include <operation/operands/workspace.h>
#include <planning/any_ref.h>
#include <runtime/kernel.h>
#include <runtime/launch_counters.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <templates/attention/common/capture_params.cuh>
#include <templates/attention/common/query_positions.cuh>
#include <type_traits>
#include <vector>

namespace fa2 {

/// One call of a plan. Everything that it refers to must outlive it.
struct Call {
  const AttentionProblem& problem;  ///< the plan's
  AnyRef args;           ///< of the plan's operation, and valid: AttentionArgs, BackwardArgs, AppendArgs ...
  OperandList operands;  ///< the tensors of `args`
  std::byte* counters = nullptr;  ///< start of the workspace; null: each launch takes the Context's counters
  std::byte* scratch = nullptr;   ///< memory that the plan's steps share; null if no step needs it
  std::span<std::byte> capture_sums = {};  ///< of captures' gradients in fixed point; empty if there are none
  WrittenBytes* written =
      nullptr;  ///< bytes that earlier steps of this run wrote; null for a step on its own
};

/// The parameter struct of one launch, of any kernel.
class ParamsBuffer {
 public:
  template <class Params>
  Params& emplace(const Params& params) {
    static_assert(std::is_trivially_copyable_v<Params>, "a launch copies bytes");
    static_assert(sizeof(Params) + kTextBytes <= kBytes && alignof(Params) <= kAlignment,
                  "a buffer holds any kernel's");
    size_ = sizeof(Params);
    return *::new (bytes_) Params(params);
  }
  /// Returns what was emplaced, which must have this type.
  template <class Params>
  const Params& as() const {
    return *std::launder(reinterpret_cast<const Params*>(bytes_));
  }
  /// Overwrites the member at `offset` of what was emplaced.
  template <class Member>
  void put(std::size_t offset, const Member& member) {
    std::memcpy(bytes_ + offset, &member, sizeof member);
  }
  /// Inserts bytes, before what is at `offset`. What was emplaced has no longer its type.
  void insert(std::size_t offset, const void* from, std::size_t bytes) {
    std::memmove(bytes_ + offset + bytes, bytes_ + offset, size_ - offset);
    std::memcpy(bytes_ + offset, from, bytes);
    size_ += bytes;
  }

  const void* data() const { return bytes_; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kBytes = 2304, kAlignment = 64;
  static constexpr std::size_t kTextBytes = kMostCaptures * sizeof(CaptureParams) + sizeof(KeyMapParams) +
                                            sizeof(CaptureMapParams) + sizeof(QueryPieceParams);

  alignas(kAlignment) std::byte bytes_[kBytes];  // uninitialised, because every call makes a buffer
  std::size_t size_ = 0;
};

/// How a step uses an operand.
struct OperandUse {
  Role role;
  Access access;
};

/// What launch() inserts in front of AttentionParams: QueryPieceParams if the problem has query_pieces, and what texts of scores need:
/// CaptureMapParams with score_tiles, KeyMapParams if there is a mask, then CaptureParams.
struct StepTexts {
  std::size_t place = 0;  ///< where AttentionParams begin in the parameters; bytes
  std::span<const CaptureSpec> captures = {};
  int staged = kNoCapture;  ///< the capture of which the kernel has tiles
  bool have_query_pieces = false;
  bool have_mask = false;
  bool have_gradients = false;                   ///< whether the kernel adds to gradients of captures
  KeyMapLayout map = {};                         ///< if the kernel makes or reads a map
  WorkspacePart map_part = {};                   ///< of the plan's scratch; without `param`
  std::shared_ptr<std::byte> constant_map = {};  ///< in place of `map_part`, if it is the same in every call

  bool are_empty() const { return captures.empty() && !have_mask && !have_query_pieces; }
};

/// A kernel of a plan, and its launch. Immutable once it is part of a plan; any thread may use it then.
struct Step {
  std::shared_ptr<const Kernel> kernel;
  KernelConfig config;
  LaunchShape shape;
  std::vector<OperandUse>
      uses;                  ///< operands that the kernel touches; empty: all of the call, as they are listed
  ParamsBuffer constants{};  ///< parameters, as far as every call has the same
  StepTexts texts = {};
  /// Turns `constants` into the parameters of one call. The device's context must be current.
  void (*fill)(const Step& step, const Call& call, ParamsBuffer& params) = nullptr;
  WorkspacePart counters;
  /// Provide `counters` to calls without a workspace; null if the step counts nothing.
  std::shared_ptr<LaunchCounters> context_counters;
  WorkspacePart scratch;
};

/// Returns the operands that the steps write, each once, in ascending order.
std::vector<Role> operands_written(std::span<const Step> steps);

/// Launches `times` times in the current context. Takes no lock and allocates nothing, except on the interpreter and for a
/// captured launch that takes the Context's counters.
void launch(const Step& step, const Call& call, Stream stream, int times = 1);

}  // namespace fa2
