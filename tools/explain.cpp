// fa2 explain: the kernels that run for a problem, and why.
#include <api/explanation.h>
#include <fmt/format.h>
#include <tools/backward_options.h>
#include <tools/explanation_text.h>
#include <tools/problem_options.h>
#include <tools/verb.h>

#include <memory>

namespace fa2::tools {
namespace {

struct ExplainFlags {
  ProblemOptions problem;
  TargetOptions target;
  BackwardOptions backward;
};

Explanation explanation_of(const ExplainFlags& options) {
  const PlannedProblem problem = options.problem.problem();
  const BackwardOptions& backward = options.backward;
  Context& context = Context::default_context();
  if (options.target.arch.empty()) {
    const int ordinal = options.target.device.device().ordinal;
    return backward.wanted ? context.backward_plan(problem, ordinal, backward.gradients, problem).explain()
                           : context.plan(problem, ordinal, problem).explain();
  }
  const std::string arch(arch_of(options.target.arch).name);
  return backward.wanted ? context.explain_backward(problem, arch, backward.gradients, problem)
                         : context.explain(problem, arch, problem);
}

}  // namespace

Verb add_explain(CLI::App& app) {
  CLI::App* verb =
      add_verb(app, "explain", "Show the kernels that run for a problem, and why",
               "fa2 explain --head-dim 128 --causal --window-left 1024 --sinks --seqlen 4096 --arch sm_90a\n"
               "  fa2 explain --backward --head-dim 128 --causal --arch sm_90a",
               "Does what a first call does: compiles the kernels that no cache holds and, on a GPU, "
               "searches configurations as FA2_TUNE "
               "says.");
  const auto options = std::make_shared<ExplainFlags>();
  options->problem.add_to(*verb);
  options->target.add_to(*verb);
  options->backward.add_to(*verb, "Of the backward: every kernel of dQ, dK and dV");
  return {verb, [verb, options] {
            const Explanation explanation = explanation_of(*options);
            fmt::print("{}", wants_json(*verb) ? to_json(explanation) + "\n"
                                               : to_text(explanation, output_columns()));
            return kOk;
          }};
}

}  // namespace fa2::tools
