// Every config that the config space calls valid compiles for every GPU family or is refused for want of registers;
// nothing else happens.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_source.h>
#include <generator/kernels/forward_sm90.h>
#include <runtime/compiler.h>
#include <runtime/parallel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/refusals.h"

using namespace fa2;

namespace {

constexpr std::string_view kFamilies[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};

/// Returns problems with head dims from the smallest to the largest, padded and unequal ones among them, and
/// with every dtype, mask and alignment.
std::vector<PlannedProblem> problems() {
  using enum MaskKind;
  constexpr PlanOptions kElement{RowAlignment::element};
  return {{{.head_dim = 8}, {}},
          {{.dtype = DType::bf16, .head_dim = 40, .mask = causal_bottom_right}, kElement},
          {{.head_dim = 64, .mask = causal_bottom_right}, {}},
          {{.dtype = DType::bf16, .head_dim = 64}, kElement},
          {{.head_dim = 72, .head_dim_v = 40, .mask = causal_top_left}, {}},
          {{.dtype = DType::bf16, .head_dim = 96}, {}},
          {{.dtype = DType::bf16, .head_dim = 128, .mask = causal_bottom_right}, {}},
          {{.head_dim = 128}, kElement},
          {{.head_dim = 192, .head_dim_v = 128}, {}},
          {{.head_dim = 256, .mask = causal_bottom_right}, {}},
          {{.dtype = DType::bf16, .head_dim = 256}, kElement}};
}

/// Returns the valid configs of all problems for all families: some twelve thousand, which take hours to
/// compile.
std::vector<KernelSpec> all_specs() {
  std::vector<KernelSpec> all;
  for (const std::string_view family : kFamilies) {
    const Arch& arch = *find_arch(family);
    for (const PlannedProblem& problem : problems()) {
      const AttentionTraits traits = traits_of(problem);
      for (const KernelConfig& config : config_space(traits, arch).valid)
        all.push_back({traits, config, arch});
    }
  }
  return all;
}

/// Returns the valid configs of the fused backward on mma.sync.
std::vector<KernelSpec> fused_backward_specs() {
  std::vector<KernelSpec> all;
  for (const std::string_view family : {"sm_80", "sm_90a", "sm_120"}) {
    const Arch& arch = *find_arch(family);
    for (const int head_dim : {64, 128, 256}) {
      const AttentionTraits traits =
          traits_of({{.head_dim = head_dim, .mask = MaskKind::causal_bottom_right}, {}});
      for (const KernelConfig& config : config_space(traits, arch, KernelPass::dq_dk_dv).valid)
        if (config.kernel == KernelId::backward_sm80) all.push_back({traits, config, arch});
    }
  }
  return all;
}

/// The pairs of values in a spec. The values are its tunables, its traits and its arch.
class Pairs {
 public:
  using Keys = std::vector<std::uint64_t>;

  Keys of(const KernelSpec& spec) {
    std::vector<std::uint64_t> values = {number_of("traits", to_string(spec.traits)),
                                         number_of("arch", std::string(spec.arch.name))};
    KernelConfig::visit(spec.config, [&](const std::string& name, int value) {
      if (name == "stages" && spec.config.kernel == KernelId::forward_sm90)
        return;  // the other fields decide how many stages fit
      values.push_back(number_of(name, std::to_string(value)));
    });
    Keys keys;
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) keys.push_back(values[i] << 32 | values[j]);
    }
    return keys;
  }

 private:
  std::uint64_t number_of(const std::string& name, const std::string& value) {
    return numbers_.try_emplace({name, value}, numbers_.size()).first->second;
  }

  std::map<std::pair<std::string, std::string>, std::uint64_t> numbers_;
};

/// Returns enough specs that every existing pair of values occurs in one. Takes specs first that add many new
/// pairs.
std::vector<KernelSpec> pairwise(const std::vector<KernelSpec>& all) {
  Pairs pairs;
  std::vector<std::pair<const KernelSpec*, Pairs::Keys>> rest;
  for (const KernelSpec& spec : all) rest.emplace_back(&spec, pairs.of(spec));
  std::unordered_set<std::uint64_t> seen;
  std::vector<KernelSpec> chosen;
  for (std::size_t least = 128; least > 0; least = least * 3 / 4) {
    std::erase_if(rest, [&](const auto& candidate) {
      const auto& [spec, keys] = candidate;
      const auto fresh = std::ranges::count_if(keys, [&](std::uint64_t key) { return !seen.contains(key); });
      if (fresh >= static_cast<std::ptrdiff_t>(least)) {
        chosen.push_back(*spec);
        seen.insert(keys.begin(), keys.end());
      }
      return fresh == 0 || fresh >= static_cast<std::ptrdiff_t>(least);
    });
  }
  return chosen;
}

struct Outcome {
  KernelBinary binary;
  std::string refusal;  ///< KernelRefused::reason()
  std::string failure;  ///< any other error
};

std::vector<Outcome> compile_all(const std::vector<KernelSpec>& specs) {
  const auto compiler = make_nvrtc_compiler();
  std::vector<Outcome> outcomes(specs.size());
  for_each_index(specs.size(), static_cast<int>(std::thread::hardware_concurrency()), [&](std::size_t i) {
    try {
      outcomes[i].binary = compiler->compile(render(specs[i]));
    } catch (const KernelRefused& refused) {
      outcomes[i].refusal = refused.reason();
      discard_source(refused);
    } catch (const CompileError& error) {
      outcomes[i].failure = error.what();
      discard_source(error);
    } catch (const Error& error) {
      outcomes[i].failure = error.what();
    }
  });
  return outcomes;
}

void check_binary(const KernelSpec& spec, const KernelBinary& binary) {
  const KernelResources& r = binary.resources;
  CHECK_FALSE(binary.code.empty());
  CHECK(r.spill_store_bytes == 0);
  CHECK(r.spill_load_bytes == 0);
  CHECK(r.stack_bytes == 0);
  const KernelKind& kind = kind_of(spec.config);
  CHECK(r.threads == kind.threads(spec.config));
  CHECK(r.dynamic_shared_bytes == kind.shared_bytes(spec.traits, spec.config));
  CHECK(r.static_shared_bytes == 0);
  if (kind.id == KernelId::forward_sm90) {
    CHECK(r.registers <= forward_sm90::register_shares(spec).at_launch);
  } else {
    CHECK(r.registers >= kind.estimated_registers(spec.traits, spec.config));
  }
  CHECK(resident_blocks(spec.arch, r.threads, r.registers, r.dynamic_shared_bytes) >=
        spec.config.ctas_per_sm);
}

/// Compiles every spec and checks the outcome; at least one must be usable.
void check_compilation(const std::vector<KernelSpec>& specs) {
  const std::vector<Outcome> outcomes = compile_all(specs);
  std::size_t compiled = 0, refused = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    INFO(to_string(specs[i].traits) << " " << to_string(specs[i].config) << " for " << specs[i].arch.name);
    CHECK_MESSAGE(outcomes[i].failure.empty(), outcomes[i].failure);
    if (!outcomes[i].refusal.empty()) {
      CHECK_MESSAGE(test::lacks_registers(outcomes[i].refusal), outcomes[i].refusal);
      ++refused;
    } else if (outcomes[i].failure.empty()) {
      check_binary(specs[i], outcomes[i].binary);
      ++compiled;
    }
  }
  CHECK(compiled > 0);
  MESSAGE(specs.front().arch.name << ": " << compiled << " compiled, " << refused
                                  << " refused for want of registers");
}

/// Calls check_compilation() once per GPU family.
void check_each_family(const std::vector<KernelSpec>& chosen) {
  for (const std::string_view family : kFamilies) {
    std::vector<KernelSpec> specs;
    std::ranges::copy_if(chosen, std::back_inserter(specs),
                         [&](const KernelSpec& spec) { return spec.arch.name == family; });
    if (!specs.empty()) check_compilation(specs);
  }
}

}  // namespace

TEST_CASE("the spread over the configuration space covers every pair of values") {
  const std::vector<KernelSpec> all = all_specs(), chosen = pairwise(all);
  Pairs pairs;
  std::unordered_set<std::uint64_t> compiled;
  for (const KernelSpec& spec : chosen) {
    for (const std::uint64_t pair : pairs.of(spec)) compiled.insert(pair);
  }
  std::size_t missing = 0;
  for (const KernelSpec& spec : all) {
    for (const std::uint64_t pair : pairs.of(spec)) missing += !compiled.contains(pair);
  }
  CHECK(missing == 0);
  CHECK(chosen.size() < all.size() / 50);
}

TEST_CASE(
    "a spread over the configuration space compiles for every GPU family or is refused for want of "
    "registers") {
  if (fa2::test::nvrtc_missing()) return;
  check_each_family(pairwise(all_specs()));
}

TEST_CASE(
    "a spread over the configurations of the fused backward on mma.sync compiles or is refused for "
    "spilling") {
  if (fa2::test::nvrtc_missing()) return;
  check_each_family(pairwise(fused_backward_specs()));
}
