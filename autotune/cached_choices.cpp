// Finds the cached kernels that are most like the missing one.
#include <autotune/cached_choices.h>
#include <autotune/candidates.h>
#include <fmt/format.h>
#include <generator/config_space.h>
#include <generator/kernel_source.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace fa2 {
namespace {

/// Returns nullopt for the text of a library with other kernels or fields.
std::optional<KernelConfig> parsed(std::string_view text) {
  try {
    return parse_config(text);
  } catch (const InvalidRequest&) {
    return std::nullopt;
  }
}

/// Returns distinct configs in the specs' order.
std::vector<KernelConfig> usable_configs(const std::vector<std::string>& cached, const KernelConfig& chosen,
                                         const PlannedProblem& problem, const Arch& arch) {
  std::string common = render({traits_of(problem), chosen, arch}).spec;
  common.resize(common.size() - to_string(chosen).size());
  std::vector<KernelConfig> configs;
  for (const std::string_view spec : cached) {
    if (!spec.starts_with(common)) continue;
    const auto config = parsed(spec.substr(common.size()));
    if (!config || *config == chosen || pass_of(*config) != pass_of(chosen) ||
        why_rejected(problem, *config, arch))
      continue;
    if (std::ranges::find(configs, *config) == configs.end()) configs.push_back(*config);
  }
  return configs;
}

}  // namespace

std::vector<ConfigChoice> cached_choices(const ConfigChoice& choice, std::vector<ConfigChoice> alternatives,
                                         const std::vector<std::string>& cached,
                                         const PlannedProblem& problem, const Arch& arch) {
  std::vector<KernelConfig> configs = usable_configs(cached, choice.config, problem, arch);
  std::ranges::stable_sort(configs, {},
                           [&](const KernelConfig& config) { return distance(config, choice.config); });
  std::erase_if(alternatives, [&](const ConfigChoice& other) {
    return std::ranges::find(configs, other.config) == configs.end();
  });
  std::vector<ConfigChoice> choices = std::move(alternatives);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (std::ranges::find(choices, configs[i], &ConfigChoice::config) != choices.end()) continue;
    choices.push_back(
        {configs[i], ConfigOrigin::fallback,
         fmt::format("cached kernel {} of {} that can compute this problem, those most like the "
                     "chosen one first",
                     i + 1, configs.size()),
         std::nullopt});
  }
  return choices;
}

}  // namespace fa2
