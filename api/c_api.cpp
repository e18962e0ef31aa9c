// Implements fa2/c_api.h on the C++ interface.
#include <api/c_context.h>
#include <api/c_guard.h>
#include <api/c_structs.h>
#include <api/explanation.h>
#include <api/plan.h>
#include <fa2/attention.h>
#include <fa2/block_map.h>
#include <fa2/c_api.h>
#include <fa2/c_append.h>
#include <fa2/c_backward.h>
#include <fa2/c_block_map.h>
#include <fa2/c_dropout.h>
#include <fa2/c_merge.h>
#include <fmt/format.h>
#include <operation/rules/validate.h>

#include <string>
#include <utility>
#include <vector>

struct fa2_plan {
  fa2::AttentionPlan plan;
};

struct fa2_backward_plan {
  fa2::BackwardPlan plan;
};

namespace {

using namespace fa2;

/// Runs body(problem, args) with the converted structs. Fails without a call if a conversion finds a violation.
template <class Problem, class Args, class Body>
fa2_status guarded_call(const Problem* problem, const Args* args, const Body& body) noexcept {
  return guarded([&] {
    Found found;
    const auto what = problem_of(problem, found);
    const auto with = args_of(args, found);
    require_none(found);
    body(*what, *with);
  });
}

Stream stream_of(void* stream) {
  return static_cast<Stream>(stream);
}

/// Returns the violations of the problem; if there are none, those of the arguments with RowAlignment::element.
Found violations_of_backward_call(const AttentionProblem& problem, const BackwardArgs& args) {
  Found found = violations_of(problem);
  if (found.empty()) found = violations_of_backward(problem);
  if (!found.empty()) return found;
  const PlannedProblem promising_nothing{problem, {RowAlignment::element}};
  return violations_of(promising_nothing, given_gradients(args), args, backward_operands_of(problem, args));
}

void throw_failures(const std::vector<PrecompiledKernel>& kernels) {
  std::string failures;
  for (const PrecompiledKernel& kernel : kernels) {
    if (kernel.error.empty()) continue;
    failures += fmt::format("\n  {} for {}: {}", to_string(PlannedProblem(kernel.problem, kernel.options)),
                            kernel.arch, kernel.error);
  }
  if (!failures.empty()) throw CompileError("not every kernel could be precompiled:" + failures, "", "");
}

}  // namespace

const char* fa2_version(void) {
  return version();
}

fa2_status fa2_context_create(const fa2_context_options* options, fa2_context** context) {
  return guarded([&] {
    required(context, "context") = nullptr;
    *context = new fa2_context{Context(options_of(options))};
  });
}

fa2_status fa2_context_destroy(fa2_context* context) {
  return guarded([&] { delete context; });
}

fa2_status fa2_attention(fa2_context* context, const fa2_problem* problem, const fa2_args* args,
                         void* stream) {
  return guarded([&] {
    Found found;
    const auto what = problem_of(problem, found);
    const auto with = args_of(args, found);
    if (!found.empty() && what && with) append(found, violations_of_call(*what, *with));
    if (!found.empty() && what && !with) append(found, violations_of(*what));
    if (!found.empty() && !what && with) append(found, violations_of(PlannedProblem(), *with));
    require_none(found);
    context_of(context).attention(*what, *with, stream_of(stream));
  });
}

fa2_status fa2_plan_create(fa2_context* context, const fa2_problem* problem, int32_t device,
                           const fa2_plan_options* options, fa2_plan** plan) {
  return guarded([&] {
    required(plan, "plan") = nullptr;
    Found found;
    const PlanOptions how = options_of(options, found);
    const AttentionProblem what = problem_on(problem, device, std::move(found));
    *plan = new fa2_plan{context_of(context).plan(what, device, how)};
  });
}

fa2_status fa2_plan_run(const fa2_plan* plan, const fa2_args* args, void* stream) {
  return guarded([&] {
    Found found;
    is_given(plan, "plan", found);
    const auto with = args_of(args, found);
    if (!found.empty() && plan && with) {
      const PlannedProblem& problem = plan->plan.impl().problem;
      append(found, violations_of(problem, *with, operands_of(problem, *with, plan->plan.workspace_bytes())));
    }
    require_none(found);
    plan->plan.run(*with, stream_of(stream));
  });
}

fa2_status fa2_plan_workspace_bytes(const fa2_plan* plan, size_t* bytes) {
  return guarded([&] {
    required(bytes, "bytes") = 0;
    *bytes = required(plan, "plan").plan.workspace_bytes();
  });
}

fa2_status fa2_plan_workspace_zeros(const fa2_plan* plan, size_t* bytes) {
  return guarded([&] {
    required(bytes, "bytes") = 0;
    *bytes = required(plan, "plan").plan.workspace_zeros();
  });
}

fa2_status fa2_plan_explain(const fa2_plan* plan, char** json) {
  return guarded([&] {
    required(json, "json") = nullptr;
    *json = allocate_copy(to_json(required(plan, "plan").plan.explain()));
  });
}

fa2_status fa2_plan_destroy(fa2_plan* plan) {
  return guarded([&] { delete plan; });
}

fa2_status fa2_attention_backward(fa2_context* context, const fa2_problem* problem,
                                  const fa2_backward_args* args, void* stream) {
  return guarded([&] {
    Found found;
    const auto what = problem_of(problem, found);
    const auto with = args_of(args, found);
    if (!found.empty() && what && with) append(found, violations_of_backward_call(*what, *with));
    if (!found.empty() && what && !with) append(found, violations_of(*what));
    if (!found.empty() && !what && with) append(found, violations_of(PlannedProblem(), with->forward));
    require_none(found);
    context_of(context).attention_backward(*what, *with, stream_of(stream));
  });
}

fa2_status fa2_dropout_mask(fa2_context* context, const fa2_problem* problem, const fa2_args* args,
                            uint8_t* mask, void* stream) {
  return guarded_call(problem, args, [&](const auto& what, const auto& with) {
    context_of(context).dropout_mask(what, with.dropout, mask, stream_of(stream));
  });
}

fa2_status fa2_merge(fa2_context* context, const fa2_merge_problem* problem, const fa2_merge_args* args,
                     void* stream) {
  return guarded_call(problem, args, [&](const auto& what, const auto& with) {
    context_of(context).merge(what, with, stream_of(stream));
  });
}

// A fa2_block_map is a BlockMap, so that arguments hold either's address.
fa2_status fa2_block_map_create(uint64_t version, fa2_block_map** map) {
  return guarded([&] {
    required(map, "map") = nullptr;
    *map = reinterpret_cast<fa2_block_map*>(new BlockMap(version));
  });
}

fa2_status fa2_map_blocks(fa2_context* context, const fa2_problem* problem, const fa2_args* args,
                          fa2_block_map* map, void* stream) {
  return guarded_call(problem, args, [&](const auto& what, const auto& with) {
    context_of(context).map_blocks(what, with, reinterpret_cast<const BlockMap&>(required(map, "map")),
                                   stream_of(stream));
  });
}

fa2_status fa2_map_blocks_of_backward(fa2_context* context, const fa2_problem* problem,
                                      const fa2_backward_args* args, fa2_block_map* map, void* stream) {
  return guarded_call(problem, args, [&](const auto& what, const auto& with) {
    context_of(context).map_blocks(what, with, reinterpret_cast<const BlockMap&>(required(map, "map")),
                                   stream_of(stream));
  });
}

fa2_status fa2_block_map_destroy(fa2_block_map* map) {
  return guarded([&] { delete reinterpret_cast<BlockMap*>(map); });
}

fa2_status fa2_append(fa2_context* context, const fa2_append_problem* problem, const fa2_append_args* args,
                      void* stream) {
  return guarded_call(problem, args, [&](const auto& what, const auto& with) {
    context_of(context).append(what, with, stream_of(stream));
  });
}

fa2_status fa2_backward_plan_create(fa2_context* context, const fa2_problem* problem, int32_t device,
                                    int32_t gradients, const fa2_plan_options* options,
                                    fa2_backward_plan** plan) {
  return guarded([&] {
    required(plan, "plan") = nullptr;
    Found found;
    const Gradients which = gradients_of(gradients, found);
    const PlanOptions how = options_of(options, found);
    const AttentionProblem what = problem_on(problem, device, std::move(found));
    *plan = new fa2_backward_plan{context_of(context).backward_plan(what, device, which, how)};
  });
}

fa2_status fa2_backward_plan_run(const fa2_backward_plan* plan, const fa2_backward_args* args, void* stream) {
  return guarded([&] {
    Found found;
    is_given(plan, "plan", found);
    const auto with = args_of(args, found);
    if (!found.empty() && plan && with) {
      const Plan& impl = plan->plan.impl();
      append(found, violations_of(impl.problem, impl.gradients, *with,
                                  backward_operands_of(impl.problem, *with, impl.workspace.bytes())));
    }
    require_none(found);
    plan->plan.run(*with, stream_of(stream));
  });
}

fa2_status fa2_backward_plan_workspace_bytes(const fa2_backward_plan* plan, size_t* bytes) {
  return guarded([&] {
    required(bytes, "bytes") = 0;
    *bytes = required(plan, "plan").plan.workspace_bytes();
  });
}

fa2_status fa2_backward_plan_explain(const fa2_backward_plan* plan, char** json) {
  return guarded([&] {
    required(json, "json") = nullptr;
    *json = allocate_copy(to_json(required(plan, "plan").plan.explain()));
  });
}

fa2_status fa2_backward_plan_destroy(fa2_backward_plan* plan) {
  return guarded([&] { delete plan; });
}

fa2_status fa2_precompile(fa2_context* context, const fa2_problem* problems, size_t problem_count,
                          const char* const* archs, size_t arch_count, const fa2_precompile_options* options,
                          char** report) {
  return guarded([&] {
    if (report != nullptr) *report = nullptr;
    Found found;
    const PrecompileRequest request(options, found);
    const auto what = problems_of(problems, problem_count, found);
    const auto where = archs_of(archs, arch_count, found);
    if (!found.empty()) append(found, violations_of(what, request.options(), where));
    require_none(found);
    const std::vector<PrecompiledKernel> kernels =
        context_of(context).precompile(what, where, request.options());
    if (report != nullptr) *report = allocate_copy(to_json(kernels));
    throw_failures(kernels);
  });
}

fa2_status fa2_tune(fa2_context* context, const fa2_problem* problem, int32_t device,
                    const fa2_tune_options* options, char** report) {
  return guarded([&] {
    if (report != nullptr) *report = nullptr;
    Found found;
    const TuneOptions how = options_of(options, found);
    const AttentionProblem what = problem_on(problem, device, std::move(found));
    const std::string result =
        how.backward ? to_json(context_of(context).tune_backward(what, device, {}, how.scope, how.plan))
                     : to_json(context_of(context).tune(what, device, how.scope, how.plan));
    if (report != nullptr) *report = allocate_copy(result);
  });
}
