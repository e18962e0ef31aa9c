// fa2 explain: the kernel that runs for a problem, and why.
#include <api/explanation.h>
#include <fmt/format.h>
#include <tools/explanation_text.h>
#include <tools/problem_options.h>
#include <tools/verb.h>

#include <memory>

namespace fa2::tools {
namespace {

struct Options {
  ProblemOptions problem;
  TargetOptions target;
};

Explanation explanation_of(const Options& options) {
  const PlannedProblem problem = options.problem.problem();
  Context& context = Context::default_context();
  if (options.target.arch.empty())
    return context.plan(problem, options.target.device.device().ordinal, problem).explain();
  return context.explain(problem, std::string(arch_of(options.target.arch).name), problem);
}

}  // namespace

Verb add_explain(CLI::App& app) {
  CLI::App* verb = add_verb(
      app, "explain", "Show the kernel that runs for a problem, and why",
      "fa2 explain --head-dim 128 --causal --window-left 1024 --sinks --seqlen 4096 --arch sm_90a",
      "Does what a first call does: compiles the kernel if no cache holds it and, on a GPU, searches\n"
      "configurations as FA2_TUNE says.");
  const auto options = std::make_shared<Options>();
  options->problem.add_to(*verb);
  options->target.add_to(*verb);
  return {verb, [verb, options] {
            const Explanation explanation = explanation_of(*options);
            fmt::print("{}", wants_json(*verb) ? to_json(explanation) + "\n" : to_text(explanation));
            return kOk;
          }};
}

}  // namespace fa2::tools
