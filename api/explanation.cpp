// Problems, explanations, tuning reports and precompiled kernels as JSON.
#include <api/explanation.h>
#include <api/problem_json.h>
#include <generator/kernel_kind.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace fa2 {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the text. Bytes that are not UTF-8, as in a device name or a path, become U+FFFD.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Json json_of(const KernelConfig& config) {
  Json json = {{"kernel", to_string(config.kernel)}};
  visit_own(config, [&](std::string_view name, std::int32_t value) { json[name] = value; });
  return json;
}

Json json_of(const KernelResources& r) {
  return {{"registers", r.registers},
          {"spill_store_bytes", r.spill_store_bytes},
          {"spill_load_bytes", r.spill_load_bytes},
          {"stack_bytes", r.stack_bytes},
          {"static_shared_bytes", r.static_shared_bytes},
          {"dynamic_shared_bytes", r.dynamic_shared_bytes},
          {"threads", r.threads}};
}

Json json_of(const std::vector<KeyPart>& parts) {
  Json json = Json::array();
  for (const KeyPart& part : parts) json.push_back({{"name", part.name}, {"value", part.value}});
  return json;
}

Json json_of(const KernelReport& k) {
  return {{"config", json_of(k.config)},
          {"config_origin", to_string(k.config_origin)},
          {"config_reason", k.config_reason},
          {"key", k.key},
          {"key_parts", json_of(k.key_parts)},
          {"origin", to_string(k.origin)},
          {"path", k.path},
          {"compiler", k.compiler},
          {"compile_ms", k.compile_ms},
          {"load_ms", k.load_ms},
          {"binary_bytes", k.binary_bytes},
          {"resources", json_of(k.resources)},
          {"blocks_per_sm", k.blocks_per_sm},
          {"is_persistent", k.is_persistent},
          {"heads_per_tile", k.heads_per_tile}};
}

Json json_of(const TuneCandidate& candidate) {
  return {{"config", json_of(candidate.config)},
          {"median_us", candidate.median_us},
          {"samples", candidate.samples},
          {"dropped", candidate.dropped}};
}

/// Returns the fields with which a report begins: the problem and the options of its plan.
Json json_of(const AttentionProblem& problem, const PlanOptions& options) {
  Json json = {{"problem", fields_of(problem)}};
  PlanOptions::visit([&](const char* name, const auto& value) { json[name] = json_value(value); }, options);
  return json;
}

Json joined(Json json, const Json& rest) {
  json.update(rest);
  return json;
}

Json json_of(const TuneReport& report) {
  Json candidates = Json::array();
  for (const TuneCandidate& candidate : report.candidates) candidates.push_back(json_of(candidate));
  return joined(json_of(report.problem, report.options), {{"bucket", report.bucket},
                                                          {"best", json_of(report.best)},
                                                          {"best_us", report.best_us},
                                                          {"heuristic_us", report.heuristic_us},
                                                          {"seconds", report.seconds},
                                                          {"budget_spent", report.budget_spent},
                                                          {"candidates", std::move(candidates)}});
}

Json json_of(const PrecompiledKernel& kernel) {
  return joined(json_of(kernel.problem, kernel.options), {{"arch", kernel.arch},
                                                          {"key", kernel.key},
                                                          {"config", json_of(kernel.config)},
                                                          {"config_reason", kernel.config_reason},
                                                          {"resources", json_of(kernel.resources)},
                                                          {"binary_bytes", kernel.binary_bytes},
                                                          {"compile_ms", kernel.compile_ms},
                                                          {"origin", to_string(kernel.origin)},
                                                          {"error", kernel.error}});
}

Json json_of(const Explanation& e) {
  Json kernels = Json::array();
  for (const KernelReport& kernel : e.kernels) kernels.push_back(json_of(kernel));
  return joined(
      json_of(e.problem, e.options),
      {{"arch", e.arch}, {"device", e.device}, {"kernels", std::move(kernels)}, {"notes", e.notes}});
}

}  // namespace

std::string to_json(const PlannedProblem& problem) {
  return dump(fields_of(problem));
}

std::string to_json(const Explanation& e) {
  return dump(json_of(e));
}

std::string to_json(const ContextParallelExplanation& e) {
  const auto of = [](const std::optional<Explanation>& plan) {
    return plan ? json_of(*plan) : Json(nullptr);
  };
  return dump({{"scheme", to_string(e.scheme)},
               {"reason", e.reason},
               {"rank", e.rank},
               {"ranks", e.ranks},
               {"groups", e.groups},
               {"backward_groups", e.backward_groups},
               {"tokens", e.tokens},
               {"needed_keys", e.needed_keys},
               {"pairs", e.pairs},
               {"sent_bytes", e.sent_bytes},
               {"received_bytes", e.received_bytes},
               {"transport", e.transport},
               {"peer_bytes", e.peer_bytes},
               {"workspace_bytes", e.workspace_bytes},
               {"forward", of(e.forward)},
               {"backward", of(e.backward)}});
}

std::string to_json(const ContextParallelDecodeExplanation& e) {
  return dump(joined(
      json_of(e.attention),
      {{"transport", e.transport}, {"peer_bytes", e.peer_bytes}, {"workspace_bytes", e.workspace_bytes}}));
}

std::string to_json(const TuneReport& report) {
  return dump(json_of(report));
}

std::string to_json(const std::vector<TuneReport>& reports) {
  Json json = Json::array();
  for (const TuneReport& report : reports) json.push_back(json_of(report));
  return dump(json);
}

std::string to_json(const std::vector<PrecompiledKernel>& kernels) {
  Json json = Json::array();
  for (const PrecompiledKernel& kernel : kernels) json.push_back(json_of(kernel));
  return dump(json);
}

}  // namespace fa2
