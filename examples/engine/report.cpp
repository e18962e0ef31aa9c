// Prints the table, and makes the JSON document.
#include "report.h"

#include <cstdio>
#include <set>

#include "../model/program.h"

namespace example {
namespace {

using Json = nlohmann::ordered_json;

double ratio(std::int64_t a, std::int64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

void print_row(const char* name, const StepSums& sums) {
  if (sums.steps == 0) return;
  std::printf("%-14s %6lld %9lld %9.1f %9.1f %12.1f %12.0f\n", name, static_cast<long long>(sums.steps),
              static_cast<long long>(sums.tokens()), ratio(sums.decode_tokens, sums.steps),
              ratio(sums.prefill_tokens, sums.steps), sums.milliseconds, sums.tokens_per_second());
}

Json json_of(const StepSums& sums) {
  return {{"steps", sums.steps},
          {"decode_tokens", sums.decode_tokens},
          {"prefill_tokens", sums.prefill_tokens},
          {"attention_ms", sums.milliseconds},
          {"attention_tokens_per_second", sums.tokens_per_second()}};
}

Json json_of(const EngineLimits& limits) {
  return {{"batch", limits.batch},
          {"step_tokens", limits.step_tokens},
          {"longest", limits.longest},
          {"page_size", limits.page_size},
          {"pages", limits.pages}};
}

Json json_of(const fa2::KernelReport& kernel) {
  return {{"key", kernel.key},
          {"config", to_string(kernel.config)},
          {"config_origin", to_string(kernel.config_origin)},
          {"origin", to_string(kernel.origin)}};
}

Json json_of(const Check& check) {
  return {{"equal_parts", check.equal_parts},
          {"logits_difference", check.logits_difference},
          {"ties", check.ties},
          {"complaints", check.complaints}};
}

void show(const Check& check) {
  std::printf("check: %lld outputs have the bits of their sequence alone\n",
              static_cast<long long>(check.equal_parts));
  std::printf("check: logits differ from whole sequences' by %.2f%%, tokens by %zu ties\n",
              100 * check.logits_difference, check.ties.size());
  for (const std::string& tie : check.ties) std::printf("  %s\n", tie.c_str());
}

}  // namespace

void StepSums::add(const StepSums& other) {
  steps += other.steps;
  decode_tokens += other.decode_tokens;
  prefill_tokens += other.prefill_tokens;
  milliseconds += other.milliseconds;
}

double StepSums::tokens_per_second() const {
  return milliseconds == 0 ? 0 : 1e3 * static_cast<double>(tokens()) / milliseconds;
}

void Report::describe(const StepAttention& step_attention, const KernelLog& log) {
  const std::vector<fa2::Explanation> explanations = step_attention.explanations();
  std::set<std::string> problems, keys;
  for (const fa2::Explanation& plan : explanations) {
    problems.insert(to_string(plan.problem));
    for (const fa2::KernelReport& kernel : plan.kernels) {
      if (keys.insert(kernel.key).second) kernels.push_back(kernel);
    }
  }
  const fa2::Explanation& any = explanations.front();
  device = any.device, arch = any.arch, attention = to_string(any.problem);
  on_gpu = step_attention.on_gpu();
  plans = log.plans(), compiled = log.compilations();
  found = static_cast<std::int64_t>(kernels.size()) + 1 - compiled;  // append() has one kernel
  expected_plans_ = static_cast<std::int64_t>(problems.size());
  graph_count = step_attention.graphs();
}

void Report::add(const StepReport& step) {
  StepSums& sums = step.is_graph ? graphs : step.prefill_tokens == 0 ? direct : mixed;
  sums.add({1, step.decode_tokens, step.prefill_tokens, step.milliseconds});
}

StepSums Report::all() const {
  StepSums sums = graphs;
  sums.add(direct);
  sums.add(mixed);
  return sums;
}

std::vector<std::string> Report::complaints_about_kernels(const KernelLog& log) const {
  std::vector<std::string> complaints;
  if (plans != expected_plans_)
    complaints.push_back("fa2's log shows " + std::to_string(plans) +
                         " plans before the first step, must be " + std::to_string(expected_plans_));
  require_at_most(0, "the number of plans that steps made", static_cast<double>(log.plans() - plans),
                  complaints);
  require_at_most(0, "the number of kernels that steps compiled",
                  static_cast<double>(log.compilations() - compiled), complaints);
  return complaints;
}

void show(const Report& report) {
  std::printf("%lld kernels compiled, %lld found in packs and caches; %lld plans, %lld CUDA graphs\n",
              static_cast<long long>(report.compiled), static_cast<long long>(report.found),
              static_cast<long long>(report.plans), static_cast<long long>(report.graph_count));
  if (!report.on_gpu) std::printf("CUDA graphs need a GPU: the interpreter ran every step directly\n");
  std::printf("\n%-14s %6s %9s %9s %9s %12s %12s\n", "", "", "", "decode", "prefill", "attention",
              "attention");
  std::printf("%-14s %6s %9s %9s %9s %12s %12s\n", "steps", "number", "tokens", "per step", "per step", "ms",
              "tokens/s");
  print_row("decode, graph", report.graphs);
  print_row("decode, direct", report.direct);
  print_row("with prefill", report.mixed);
  print_row("all", report.all());
  std::printf("\n%lld preemptions; %.1f s with the CPU's part, on %s\n",
              static_cast<long long>(report.preemptions), report.seconds, report.device.c_str());
  if (report.check) show(*report.check);
}

nlohmann::ordered_json document(const Report& report, const Options& options) {
  Json kernels = Json::array();
  for (const fa2::KernelReport& kernel : report.kernels) kernels.push_back(json_of(kernel));
  Json json = {{"facts",
                {{"device", report.device},
                 {"arch", report.arch},
                 {"fa2", fa2::version()},
                 {"model", options.model},
                 {"tiny", options.tiny},
                 {"attention", report.attention},
                 {"limits", json_of(options.limits)},
                 {"requests", options.requests},
                 {"seed", options.seed}}},
               {"kernels", {{"compiled", report.compiled}, {"found", report.found}, {"attention", kernels}}},
               {"plans", report.plans},
               {"graphs", report.graph_count},
               {"preemptions", report.preemptions},
               {"seconds", report.seconds},
               {"steps",
                {{"decode_graph", json_of(report.graphs)},
                 {"decode_direct", json_of(report.direct)},
                 {"with_prefill", json_of(report.mixed)},
                 {"all", json_of(report.all())}}}};
  if (report.check) json["check"] = json_of(*report.check);
  return json;
}

}  // namespace example
