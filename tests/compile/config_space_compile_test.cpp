// What the configuration space calls valid compiles for every GPU family, or is refused for spilling: nothing
// else happens.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_source.h>
#include <generator/rules/forward_sm90.h>
#include <runtime/compiler.h>
#include <runtime/parallel.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../support/device_under_test.h"

using namespace fa2;

namespace {

constexpr std::string_view kFamilies[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};

/// Head dims from the smallest to the largest, padded and unequal ones too, with every dtype, mask and
/// alignment.
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
          {{.dtype = DType::bf16, .head_dim = 192, .mask = causal_bottom_right}, {}},
          {{.head_dim = 256, .mask = causal_bottom_right}, {}},
          {{.dtype = DType::bf16, .head_dim = 256}, kElement}};
}

std::vector<KernelSpec> whole_space(const PlannedProblem& problem, const Arch& arch) {
  const AttentionTraits traits = traits_of(problem);
  std::vector<KernelSpec> specs;
  for (const KernelConfig& config : config_space(traits, arch).valid) specs.push_back({traits, config, arch});
  return specs;
}

/// The valid configurations of all problems in a row: two to three thousand for one family, some ten minutes
/// of one core.
std::vector<KernelSpec> all_specs(std::size_t family) {
  std::vector<KernelSpec> all;
  for (const PlannedProblem& problem : problems()) {
    std::ranges::copy(whole_space(problem, *find_arch(kFamilies[family])), std::back_inserter(all));
  }
  return all;
}

using ValuesByName = std::map<std::string, std::set<std::string>>;

/// Every value of every tunable and trait that occurs.
ValuesByName values_of(const std::vector<KernelSpec>& specs) {
  ValuesByName values;
  for (const KernelSpec& spec : specs) {
    KernelConfig::visit(spec.config,
                        [&](const char* name, int value) { values[name].insert(std::to_string(value)); });
    values["dtype"].emplace(to_string(spec.traits.dtype));
    values["mask"].emplace(to_string(spec.traits.mask));
    values["row_alignment"].emplace(to_string(spec.traits.row_alignment));
    values["head dims"].insert(std::to_string(spec.traits.head_dim) + "/" +
                               std::to_string(spec.traits.head_dim_v));
  }
  return values;
}

/// How many values there are, of all names together.
std::size_t count(const ValuesByName& values) {
  std::size_t total = 0;
  for (const auto& [name, of_name] : values) total += of_name.size();
  return total;
}

/// Every 53rd of them, beginning elsewhere for every family, and the first with each value that is rarer.
std::vector<KernelSpec> spread(std::size_t family) {
  constexpr std::size_t kStride = 53;
  const std::vector<KernelSpec> all = all_specs(family);
  std::vector<KernelSpec> chosen;
  for (std::size_t i = family * 4 % kStride; i < all.size(); i += kStride) chosen.push_back(all[i]);
  ValuesByName seen = values_of(chosen);
  for (const KernelSpec& spec : all) {
    const std::size_t before = count(seen);
    for (const auto& [name, values] : values_of({spec})) seen[name].insert(values.begin(), values.end());
    if (count(seen) > before) chosen.push_back(spec);
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

/// The compiler refuses serialised warpgroup MMAs as well; only spills are expected.
bool spills(const std::string& refusal) {
  return refusal.find("of spill stores") != std::string::npos &&
         refusal.find(" 0 of spill stores, 0 of spill loads") == std::string::npos;
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
  if (&kind == &kForwardSm90) {
    CHECK(r.registers <= forward_sm90::register_shares(spec.config, spec.arch).at_launch);
  } else {
    CHECK(r.registers >= kind.estimated_registers(spec.traits, spec.config));
  }
  CHECK(resident_blocks(spec.arch, r.threads, r.registers, r.dynamic_shared_bytes) >=
        spec.config.ctas_per_sm);
}

/// Compiles each and checks what came of it; at least one must be usable.
void check_compilation(const std::vector<KernelSpec>& specs) {
  const std::vector<Outcome> outcomes = compile_all(specs);
  std::size_t compiled = 0, refused = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    INFO(to_string(specs[i].traits) << " " << to_string(specs[i].config) << " for " << specs[i].arch.name);
    CHECK_MESSAGE(outcomes[i].failure.empty(), outcomes[i].failure);
    if (!outcomes[i].refusal.empty()) {
      CHECK_MESSAGE(spills(outcomes[i].refusal), outcomes[i].refusal);
      ++refused;
    } else if (outcomes[i].failure.empty()) {
      check_binary(specs[i], outcomes[i].binary);
      ++compiled;
    }
  }
  CHECK(compiled > 0);
  MESSAGE(specs.front().arch.name << ": " << compiled << " compiled, " << refused << " refused for spilling");
}

}  // namespace

TEST_CASE("the spread over the configuration space leaves out no value of any tunable") {
  for (std::size_t family = 0; family < std::size(kFamilies); ++family) {
    CAPTURE(std::string(kFamilies[family]));
    CHECK(values_of(spread(family)) == values_of(all_specs(family)));
  }
}

TEST_CASE("a spread over the configuration space compiles for every GPU family or is refused for spilling") {
  if (fa2::test::nvrtc_missing()) return;
  for (std::size_t family = 0; family < std::size(kFamilies); ++family) check_compilation(spread(family));
}

TEST_CASE("every configuration of f16 d256 compiles for sm_90a or is refused for spilling") {
  if (fa2::test::nvrtc_missing()) return;
  check_compilation(whole_space({{.head_dim = 256}, {}}, *find_arch("sm_90a")));
}
