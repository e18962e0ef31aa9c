#include <api/parallel_request.h>
#include <api/problem_statements.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <operation/rules/validate.h>
#include <operation/rules/violations.h>
#include <parallel/rank_work.h>
#include <parallel/scheme_words.h>

#include <string>
#include <utility>

namespace fa2 {
namespace {

/// Adds the fields that no scheme computes.
void check_problem(RequestCheck& found, const ParallelRequest& request) {
  const AttentionProblem& p = request.problem;
  if (p.kv_type != KvType::same)
    found.add("kv_type", word_of(p.kv_type), "must be same: keys travel in the dtype of Q");
  const auto expect_none = [&](bool given, const char* field, const char* rule) {
    if (given) found.add(field, "true", rule);
  };
  expect_none(p.values_in_keys, "values_in_keys", "must be false: latents are not sharded");
  expect_none(p.query_pieces, "query_pieces", "must be false: the layout says where queries stand");
  expect_none(p.max_logits, "max_logits", "must be false: ranks do not exchange logits");
  if (p.batch < 1) found.add("batch", p.batch, "must be at least 1");
  const auto documents = static_cast<std::int64_t>(request.cu_seqlens.size()) - 1;
  if (p.varlen && p.batch != documents)
    found.add("batch", p.batch, fmt::format("must be the number of documents in cu_seqlens, {}", documents));
}

void check_options(RequestCheck& found, const ParallelRequest& request) {
  const ContextParallelOptions& options = request.options;
  const Gradients& gradients = request.gradients;
  const int ranks = request.communicator.size();
  if (request.layout.size() != ranks)
    found.add("layout.ranks", request.layout.size(),
              fmt::format("must be the {} ranks of the communicator", ranks));
  Violations enums;
  check_enum(enums, "scheme", options.scheme);
  found.add(std::move(enums));
  if (gradients.dk != gradients.dv)
    found.add("gradients.dk", gradients.dk ? "true" : "false",
              "must equal gradients.dv: both go home together");
  if (options.groups < 0) found.add("groups", options.groups, "must be at least 0");
  if (options.scheme == ContextParallelScheme::all_to_all) return;
  if (options.scheme == ContextParallelScheme::staged) {
    if (options.groups > 0) found.add("groups", options.groups, "must be 0: stages have all heads");
    return;
  }
  const std::string why = why_one_group(request.problem, gradients);
  if (options.groups > 1 && !why.empty()) found.add("groups", options.groups, "must be 0 or 1: " + why);
}

}  // namespace

RequestCheck broken_rules(const ParallelRequest& request) {
  RequestCheck found;
  found.add(violations_of(PlannedProblem(request.given, request.options.plan)));
  if (!found.empty()) return found;
  check_problem(found, request);
  check_options(found, request);
  if (found.empty() && request.options.gradients)
    found.add(violations_of_backward(request.problem, request.gradients));
  return found;
}

std::vector<Statement> statements_of(const ParallelRequest& request) {
  const ContextParallelOptions& o = request.options;
  const Gradients& g = request.gradients;
  std::vector<Statement> statements = statements_of(PlannedProblem(request.problem, o.plan));
  statements.insert(statements.end(),
                    {{"layout", to_string(request.layout)},
                     {"cu_seqlens", fmt::format("{}", fmt::join(request.cu_seqlens, " "))},
                     {"scheme", std::string(to_string(o.scheme))},
                     {"gradients", fmt::format("{} {} {} {} {} {}", g.dq, g.dk, g.dv, g.d_sinks, g.d_captures,
                                               word_of(g.determinism))}});
  return statements;
}

Violations violations_of_run(const AttentionProblem& problem, ContextParallelScheme scheme,
                             const AttentionArgs& args) {
  Violations found;
  if (args.block_map != nullptr)
    found.push_back({"block_map", "given", "must be null: plans of shards make their own maps"});
  if (!args.alibi_slopes_per_batch) return found;
  if (problem.varlen) found.push_back({"alibi_slopes_per_batch", "true", "must be false with documents"});
  if (scheme == ContextParallelScheme::all_to_all && problem.batch > 1)
    found.push_back({"alibi_slopes_per_batch", "true", "must be false where ranks have some heads each"});
  return found;
}

}  // namespace fa2
