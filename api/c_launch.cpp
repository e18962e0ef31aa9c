// fa2/c_launch.h: memoised plans, and workspaces that the caller allocates.
#include <api/c_guard.h>
#include <api/c_structs.h>
#include <api/context.h>
#include <api/plan.h>
#include <fa2/block_map.h>
#include <fa2/c_launch.h>
#include <fmt/format.h>
#include <generator/key_map_layout.h>
#include <operation/operands/operands.h>
#include <operation/rules/validate.h>
#include <planning/backward.h>
#include <planning/forward.h>
#include <planning/held_maps.h>
#include <runtime/device.h>
#include <runtime/fill.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace {

using namespace fa2;

/// Memory of the caller's allocator, released when the last call that uses it has been launched.
class Workspace {
 public:
  Workspace(const fa2_launch& launch, std::size_t bytes, std::size_t zeros)
      : bytes_(bytes),
        zeros_(zeros),
        owner_(launch.allocate(launch.place.device, launch.stream, bytes, zeros, &data_), launch.release) {
    if (owner_ == nullptr)
      throw Unavailable(
          fmt::format("workspace = none, must have {} bytes: the allocator returned NULL", bytes));
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t zeros() const { return zeros_; }

 private:
  std::size_t bytes_, zeros_;
  void* data_ = nullptr;
  std::unique_ptr<void, fa2_release> owner_;
};
using SharedWorkspace = std::shared_ptr<const Workspace>;

/// The workspaces that streams keep for later calls. Thread-safe.
class KeptWorkspaces {
 public:
  /// Returns the stream's workspace, grown to at least these sizes. Its launches take turns, and leave zeros.
  SharedWorkspace get(const fa2_launch& launch, std::size_t bytes, std::size_t zeros) {
    const std::pair key(launch.place.device, launch.stream);
    {
      const std::lock_guard lock(mutex_);
      const SharedWorkspace& kept = by_stream_[key];
      if (kept != nullptr) {
        if (kept->bytes() >= bytes && kept->zeros() >= zeros) return kept;
        bytes = std::max(bytes, kept->bytes()), zeros = std::max(zeros, kept->zeros());
      }
    }
    // Allocated and released without the lock, because both may wait for other threads.
    const auto grown = std::make_shared<const Workspace>(launch, bytes, zeros);
    SharedWorkspace before = grown;
    const std::lock_guard lock(mutex_);
    before.swap(by_stream_[key]);
    return grown;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::int32_t, void*>, SharedWorkspace> by_stream_;
};

/// Returns the workspace of a call, null if it needs none of the caller's.
SharedWorkspace workspace_for(const fa2_launch& launch, std::size_t bytes, std::size_t zeros, bool keeps) {
  if (bytes == 0 || launch.allocate == nullptr || launch.place.device == kInterpreterDevice) return nullptr;
  if (!keeps) return std::make_shared<const Workspace>(launch, bytes, zeros);
  // Never destroyed: at exit, the allocator may be gone.
  static KeptWorkspaces& kept = *new KeptWorkspaces;
  return kept.get(launch, bytes, zeros);
}

PlannedProblem planned(const AttentionProblem& problem, const fa2_launch& launch) {
  return {problem.normalized(), {static_cast<RowAlignment>(launch.place.row_alignment)}};
}

/// Returns whether the launch becomes part of a graph.
bool captures(const fa2_launch& launch) {
  return launch.place.device != kInterpreterDevice && is_capturing(static_cast<Stream>(launch.stream));
}

/// @throws Unavailable if a plan would have to be made while the stream captures.
void require_no_capture(const AttentionProblem& problem, const fa2_launch& launch) {
  if (captures(launch)) throw_capturing(problem);
}

std::shared_ptr<std::byte> map_memory_of(const fa2_launch& launch, std::size_t bytes) {
  const SharedWorkspace memory = workspace_for(launch, bytes, 0, false);
  return memory == nullptr ? map_memory(bytes)
                           : std::shared_ptr<std::byte>(memory, static_cast<std::byte*>(memory->data()));
}

/// Returns the arguments with the launch's map, made for the plan's tiles if it has none. A graph makes its own in each replay,
/// before which captures may have changed.
template <class Args>
Args with_launch_map(const Plan& plan, const Args& args, const fa2_launch& launch) {
  if (launch.block_map == nullptr || !has_mask_text(plan.problem) || captures(launch)) return args;
  const auto& map = reinterpret_cast<const BlockMap&>(*launch.block_map);
  if (lacks_map(plan, map.impl()))
    map_blocks(plan, args, map, static_cast<Stream>(launch.stream),
               [&](std::size_t bytes) { return map_memory_of(launch, bytes); });
  return with_map(args, map);
}

const fa2_launch& checked(const fa2_launch* launch) {
  const fa2_launch& given = required(launch, "launch");
  Found found;
  if (given.struct_size != sizeof(fa2_launch))
    found.push_back({"launch.struct_size", fmt::format("{}", given.struct_size),
                     fmt::format("must be {}: use FA2_LAUNCH_INIT", sizeof(fa2_launch))});
  if (given.place.row_alignment < FA2_ROWS_16_BYTES ||
      given.place.row_alignment > FA2_ROWS_16_BYTES_ANY_ORDER)
    found.push_back(
        {"launch.place.row_alignment", fmt::format("{}", given.place.row_alignment),
         "must be FA2_ROWS_16_BYTES (0), FA2_ROWS_ELEMENT (1) or FA2_ROWS_16_BYTES_ANY_ORDER (2)"});
  if (given.allocate != nullptr && given.release == nullptr)
    found.push_back({"launch.release", "NULL", "must be given with allocate"});
  require_none(found);
  return given;
}

}  // namespace

fa2_status fa2_launch_attention(const fa2_problem* problem, const fa2_args* args, const fa2_launch* launch) {
  return guarded([&] {
    const fa2_launch& how = checked(launch);
    Found found;
    const auto what = problem_of(problem, found);
    auto with = args_of(args, found);
    require_none(found);
    require_valid_problem_of(*what, *with);
    const PlannedProblem p = planned(*what, how);
    if (!has_output(p)) return;
    Context::Impl& context = Context::default_context().impl();
    auto plan = context.plans.find({p, how.place.device});
    if (!plan) {
      require_no_capture(p, how);
      plan = context.plan(p, how.place.device, std::string(reason_for(p)), with->lse != nullptr);
    }
    // A captured launch counts in the context's memory. Zeros in a workspace would be another node of the graph, before which
    // the launch cannot begin.
    const bool is_captured = captures(how);
    const SharedWorkspace workspace =
        workspace_for(how, plan->workspace_bytes(), is_captured ? 0 : plan->workspace_zeros(),
                      how.keeps != 0 && !is_captured);
    with->workspace = workspace != nullptr ? workspace->data() : nullptr;
    const AttentionArgs reading = with_launch_map(plan->impl(), *with, how);
    run(plan->impl(), reading, operands_of(p, reading, plan->workspace_bytes()),
        static_cast<Stream>(how.stream), is_captured ? CounterPlace::context : CounterPlace::workspace);
  });
}

fa2_status fa2_launch_backward(const fa2_problem* problem, const fa2_backward_args* args,
                               const fa2_launch* launch) {
  return guarded([&] {
    const fa2_launch& how = checked(launch);
    Found found;
    const auto what = problem_of(problem, found);
    auto with = args_of(args, found);
    require_none(found);
    require_valid_backward({*what, {}});
    const PlannedProblem p = planned(*what, how);
    const Gradients gradients = kept_by(*what, given_gradients(*with));
    Context::Impl& context = Context::default_context().impl();
    auto plan = context.backward_plans.find({{p, how.place.device}, gradients});
    if (!plan) {
      require_no_capture(p, how);
      plan = context.backward_plan(p, how.place.device, gradients, std::string(reason_for(p)));
    }
    const SharedWorkspace workspace = workspace_for(how, plan->workspace_bytes(), 0, false);
    with->workspace = workspace != nullptr ? workspace->data() : nullptr;
    plan->run(with_launch_map(plan->impl(), *with, how), static_cast<Stream>(how.stream));
  });
}

fa2_status fa2_fill_zeros(void* data, size_t bytes, const fa2_launch* launch) {
  return guarded([&] {
    const fa2_launch& how = checked(launch);
    if (data == nullptr && bytes > 0) throw InvalidRequest({{"data", "NULL", "must be given"}});
    const ScopedContext current(how.place.device);
    fill_zeros(data, bytes, static_cast<Stream>(how.stream));
  });
}

fa2_status fa2_on_device(int32_t device, fa2_status (*body)(void* data), void* data) {
  fa2_status status = FA2_INTERNAL;
  const fa2_status entered = guarded([&] {
    if (body == nullptr) throw InvalidRequest({{"body", "NULL", "must be given"}});
    const ScopedContext current(device);
    status = body(data);
  });
  return entered != FA2_OK ? entered : status;
}
