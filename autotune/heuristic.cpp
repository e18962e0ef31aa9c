// Asks the heuristics of the kernels that compute a pass (generator/kernels).
#include <autotune/heuristic.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/config_space.h>
#include <generator/head_packing.h>
#include <generator/kernel_kind.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace fa2 {
namespace {

constexpr std::int64_t kMostLength = std::numeric_limits<std::int32_t>::max() - 1023;  // of any sequence

/// Returns the length under which a kernel looks up its table. `mean`: the mean length of packed sequences.
std::string length_text(const AttentionProblem& p, std::int64_t mean) {
  const std::string queries = fmt::format("{}seqlen_q {}", p.total_q > 0 ? "mean " : "", mean);
  if (table_length(p, mean) == mean) return queries;
  return fmt::format("{} with {} keys in the {}", queries, *window_width(p),
                     window_width(p) == p.attention_chunk ? "chunk" : "window");
}

/// Returns the problem as heuristics judge it.
PlannedProblem judged_problem(const PlannedProblem& problem) {
  PlannedProblem p = problem.normalized();
  if (p.batch_invariant) p.batch = p.seqlen_q = p.seqlen_k = 1, p.total_q = p.total_k = 0;
  return p;
}

/// Calls f(kind) for each kernel that computes `pass` on `arch`, in the order of FA2_KERNELS reversed.
template <class Function>
void for_each_kernel(KernelPass pass, const Arch& arch, const Function& f) {
  const auto kinds = kernel_kinds();
  for (auto kind = kinds.rbegin(); kind != kinds.rend(); ++kind)
    if ((*kind)->pass == pass && (*kind)->runs_on(arch)) f(**kind);
}

/// Returns the valid configs of one kernel, best first.
std::vector<KernelConfig> configs_of(const KernelKind& kind, const PlannedProblem& p, const Arch& arch) {
  std::vector<KernelConfig> configs =
      kind.heuristic == nullptr ? std::vector{kind.default_config} : kind.heuristic(p, arch);
  std::erase_if(configs, [&](const KernelConfig& c) { return why_rejected(p, c, arch).has_value(); });
  return configs;
}

/// Returns the forward kernels' configs, each kernel's together.
std::vector<KernelConfig> forward_configs(const PlannedProblem& p, const Arch& arch) {
  std::vector<KernelConfig> all;
  for_each_kernel(KernelPass::forward, arch, [&](const KernelKind& kind) {
    const std::vector<KernelConfig> configs = configs_of(kind, p, arch);
    all.insert(kind.is_preferred(p, arch) ? all.begin() : all.end(), configs.begin(), configs.end());
  });
  return all;
}

/// Returns the configs of the first kernel that has any.
std::vector<KernelConfig> backward_configs(const PlannedProblem& p, KernelPass pass, const Arch& arch) {
  std::vector<KernelConfig> configs;
  for_each_kernel(pass, arch, [&](const KernelKind& kind) {
    if (configs.empty()) configs = configs_of(kind, p, arch);
  });
  return configs;
}

/// Returns the limits of all forward kernels, and some lengths beyond.
HeuristicLimits limits_of_forward(const AttentionTraits& traits, const Arch& arch) {
  HeuristicLimits all;
  for_each_kernel(KernelPass::forward, arch, [&](const KernelKind& kind) {
    if (kind.heuristic_limits == nullptr) return;
    const HeuristicLimits limits = kind.heuristic_limits(traits, arch);
    all.packed_rows = std::max(all.packed_rows, limits.packed_rows);
    all.queries.insert(all.queries.end(), limits.queries.begin(), limits.queries.end());
    all.keys.insert(all.keys.end(), limits.keys.begin(), limits.keys.end());
  });
  all.queries.push_back(4096);
  all.keys.push_back(kMostLength);
  return all;
}

}  // namespace

std::vector<HeuristicChoice> heuristic_choices(const PlannedProblem& problem, const Arch& arch) {
  const PlannedProblem p = judged_problem(problem);
  const std::int64_t queries = with_mean_lengths(p).seqlen_q;
  std::vector<HeuristicChoice> choices;
  for (const KernelConfig& c : forward_configs(p, arch)) {
    choices.push_back(
        {c, fmt::format("entry {} of the table for head dims around {}, {}, on {}", choices.size() + 1,
                        std::max(p.head_dim, p.head_dim_v), length_text(p, queries), arch.name)});
  }
  if (choices.empty()) {
    throw Error(ErrorCode::internal,
                fmt::format("no heuristic configuration fits {} on {}", to_string(traits_of(p)), arch.name));
  }
  return choices;
}

std::vector<HeuristicChoice> heuristic_choices(const PlannedProblem& problem, const Arch& arch,
                                               KernelPass pass) {
  if (pass == KernelPass::forward) return heuristic_choices(problem, arch);
  std::vector<HeuristicChoice> choices;
  if (!is_chosen(pass)) return choices;
  for (const KernelConfig& config : backward_configs(problem, pass, arch))
    choices.push_back(
        {config, fmt::format("heuristic: choice {} of those that fit this pass", choices.size() + 1)});
  return choices;
}

std::vector<PlannedProblem> heuristic_cases(const PlannedProblem& problem, const Arch& arch) {
  PlannedProblem p = problem.normalized();
  p.batch = p.heads_kv = 1;
  p.total_q = p.total_k = 0;  // heuristics use mean lengths, which are among the cases
  // Narrower windows and chunks act like shorter sequences, which are among the cases.
  if (p.window_left) p.window_left = kMostLength;
  if (p.window_right) p.window_right = kMostLength;
  if (p.attention_chunk) p.attention_chunk = kMostLength;
  std::vector<PlannedProblem> cases;
  const auto add = [&](std::int64_t queries, std::int64_t group, std::int64_t keys, std::int64_t batch = 1) {
    p.batch = batch;
    p.heads_q = group;
    p.seqlen_q = queries;
    p.seqlen_k = keys;
    cases.push_back(p);
  };
  const HeuristicLimits all = limits_of_forward(traits_of(p), arch);
  // Below a tile, rows depend on queries and heads.
  for (std::int64_t queries = 1; queries < all.packed_rows; ++queries) {
    for (int group = 1; group <= kMostPackedHeads; group *= 2) {
      add(queries, group, queries);
      for (const std::int64_t keys : all.keys) add(queries, group, keys);
      add(queries, group, kMostLength, 256);  // more KV blocks than split KV can number
    }
  }
  // Under a top-left mask a short prefill chunk sees few keys, and a long one many.
  for (const std::int64_t queries : all.queries) {
    add(queries, 1, queries);
    add(queries, 1, kMostLength);
  }
  // Tiles of either size may fit the rows, whatever number of keys these see.
  for (const std::int64_t queries : {128, 192, 384, 640, 1000, 2000, 4000, 8000}) {
    for (const std::int64_t length : all.queries) {
      const std::int64_t keys = has_edges(p) ? length / 2 + queries / 2 : length;
      for (const std::int64_t batch : {1, 16, 256}) add(queries, 1, std::max(queries, keys), batch);
    }
  }
  return cases;
}

std::vector<PlannedProblem> heuristic_cases(const PlannedProblem& problem, const Arch& arch,
                                            KernelPass pass) {
  if (pass == KernelPass::forward) return heuristic_cases(problem, arch);
  if (!sums_dq(pass)) return {problem};
  PlannedProblem few = problem.normalized(), many = few;
  few.seqlen_q = 1;
  many.seqlen_q = kMostLength;
  return {few, many};
}

HeuristicChoice heuristic(const PlannedProblem& problem, const Arch& arch) {
  return heuristic_choices(problem, arch).front();
}

}  // namespace fa2
