// Converts the structs of the C interface. Conversions collect violations, so that one error lists all of them.
#pragma once

#include <fa2/append.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fa2/c_api.h>
#include <fa2/c_append.h>
#include <fa2/c_backward.h>
#include <fa2/c_merge.h>
#include <fa2/merge.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2 {

/// The violations of a call. Each conversion adds its own and goes on.
using Found = std::vector<Violation>;

void append(Found& found, Found more);

/// @throws InvalidRequest if `found` is not empty.
void require_none(Found& found);

/// Returns whether `pointer` is not NULL; adds a violation if it is.
bool is_given(const void* pointer, const std::string& name, Found& found);

/// Returns what `pointer` points to. @throws InvalidRequest if it is NULL.
template <class T>
T& required(T* pointer, const std::string& name) {
  Found found;
  is_given(pointer, name, found);
  require_none(found);
  return *pointer;
}

/// Return the converted struct; nullopt if it cannot be read. Check only what a conversion would lose, not the rules of problems
/// and arguments.
std::optional<AttentionProblem> problem_of(const fa2_problem* pointer, Found& found);
std::optional<AttentionArgs> args_of(const fa2_args* pointer, Found& found);
std::optional<BackwardArgs> args_of(const fa2_backward_args* pointer, Found& found);
std::optional<MergeProblem> problem_of(const fa2_merge_problem* pointer, Found& found);
std::optional<MergeArgs> args_of(const fa2_merge_args* pointer, Found& found);
std::optional<AppendProblem> problem_of(const fa2_append_problem* pointer, Found& found);
std::optional<AppendArgs> args_of(const fa2_append_args* pointer, Found& found);
/// Converts FA2_DQ, FA2_DK, FA2_DV, FA2_D_SINKS, FA2_D_CAPTURES and FA2_BITWISE, or'ed together.
Gradients gradients_of(std::int32_t flags, Found& found);

/// Converts options; NULL gives the defaults. @throws InvalidRequest with all violations, those of Context's constructor too.
ContextOptions options_of(const fa2_context_options* pointer);

/// The arguments of Context::tune() except for problem and device.
struct TuneOptions {
  TuneScope scope = TuneScope::likely;
  PlanOptions plan;
  bool backward = false;
};

/// Converts options; NULL gives the defaults.
PlanOptions options_of(const fa2_plan_options* pointer, Found& found);
/// A precompile() for a program in C.
class PrecompileRequest final : private PrecompileObserver {
 public:
  PrecompileRequest(const fa2_precompile_options* pointer, Found& found);
  PrecompileRequest(const PrecompileRequest&) = delete;  // options_.observer points to this
  PrecompileRequest& operator=(const PrecompileRequest&) = delete;

  const PrecompileOptions& options() const { return options_; }

 private:
  void finished(const PrecompiledKernel&, std::size_t done, std::size_t total) override {
    progress_(progress_data_, done, total);
  }

  PrecompileOptions options_;
  fa2_progress progress_ = nullptr;
  void* progress_data_ = nullptr;
};
TuneOptions options_of(const fa2_tune_options* pointer, Found& found);

/// Converts a problem and checks `device`. @throws InvalidRequest with `found` and all further violations.
AttentionProblem problem_on(const fa2_problem* pointer, std::int32_t device, Found found = {});

/// Return one result per input, so that indices match. A valid default replaces an unreadable one.
std::vector<AttentionProblem> problems_of(const fa2_problem* problems, std::size_t count, Found& found);
std::vector<std::string> archs_of(const char* const* archs, std::size_t count, Found& found);

}  // namespace fa2
