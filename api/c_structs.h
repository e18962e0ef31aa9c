// The structs of the C interface, converted. What is wrong with them is collected, so that one error lists it all.
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

/// What is wrong with a call. Conversions enter their share and go on.
using Found = std::vector<Violation>;

void append(Found& found, Found more);

/// @throws InvalidRequest if there is anything in `found`.
void require_none(Found& found);

/// Whether `pointer` is not NULL.
bool is_given(const void* pointer, const std::string& name, Found& found);

/// @throws InvalidRequest if it is NULL.
template <class T>
T& required(T* pointer, const std::string& name) {
  Found found;
  is_given(pointer, name, found);
  require_none(found);
  return *pointer;
}

/// nullopt if nothing can be read. The rules of problems and arguments are not checked: only what a conversion
/// would lose.
std::optional<AttentionProblem> problem_of(const fa2_problem* pointer, Found& found);
std::optional<AttentionArgs> args_of(const fa2_args* pointer, Found& found);
std::optional<BackwardArgs> args_of(const fa2_backward_args* pointer, Found& found);
std::optional<MergeProblem> problem_of(const fa2_merge_problem* pointer, Found& found);
std::optional<MergeArgs> args_of(const fa2_merge_args* pointer, Found& found);
std::optional<AppendProblem> problem_of(const fa2_append_problem* pointer, Found& found);
std::optional<AppendArgs> args_of(const fa2_append_args* pointer, Found& found);
/// Of FA2_DQ and its like and FA2_BITWISE, or'ed together.
Gradients gradients_of(std::int32_t flags, Found& found);

/// NULL: no options. @throws InvalidRequest with everything that a Context would refuse too.
ContextOptions options_of(const fa2_context_options* pointer);

/// What Context::tune() takes beside the problem and the device.
struct TuneOptions {
  TuneScope scope = TuneScope::likely;
  PlanOptions plan;
  bool backward = false;
};

/// NULL: no options.
PlanOptions options_of(const fa2_plan_options* pointer, Found& found);
/// A precompile() that a program in C asked for.
class PrecompileRequest final : private PrecompileObserver {
 public:
  PrecompileRequest(const fa2_precompile_options* pointer, Found& found);
  PrecompileRequest(const PrecompileRequest&) = delete;  // the options know it
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

/// A problem and the device to make it ready on. @throws InvalidRequest with `found` and what it finds itself.
AttentionProblem problem_on(const fa2_problem* pointer, std::int32_t device, Found found = {});

/// One for each, so that indices stay: in place of those that cannot be read, one with nothing wrong.
std::vector<AttentionProblem> problems_of(const fa2_problem* problems, std::size_t count, Found& found);
std::vector<std::string> archs_of(const char* const* archs, std::size_t count, Found& found);

}  // namespace fa2
