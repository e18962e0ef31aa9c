// What the library knows about each kernel: one KernelKind per KernelId, defined in generator/kernels with its rules. A new
// kernel is such a file, its templates, and its name in FA2_KERNELS; tunables of its own are fields of KernelConfig.
#pragma once

#include <core/enum_words.h>
#include <fa2/config.h>
#include <fa2/errors.h>
#include <generator/embedded.h>
#include <generator/kernel_spec.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

class BrokenRules;
struct Step;
struct StepRequest;

/// A field of KernelConfig that a kernel reads, and the values that it may have by itself.
struct Tunable {
  std::string_view name;  ///< as KernelConfig::visit has it
  std::int32_t least = 0;
  std::int32_t most = 0;
  std::int32_t multiple_of = 1;
  /// Whether texts and keys name it only if it is not the default: few problems change it.
  bool is_rare = false;
};

/// A constant of the rendered config.cuh.
struct RenderedConstant {
  std::string_view name;
  std::int32_t value = 0;
};

/// What a kernel computes. Several kernels may compute the same; tuning and pins choose among them.
enum class KernelPass : std::uint8_t {
  forward,
  delta,
  dq,
  dk_dv,
  dk,
  dv,
  d_sinks,
  d_captures,        ///< gradients of tensors that texts of scores capture
  dq_dk_dv,          ///< dK and dV; accumulates dQ
  dq_convert,        ///< rounds the accumulated dQ
  ordered_dq_dk_dv,  ///< as dq_dk_dv, and accumulates dQ in one order
  rows               ///< an operation with a single kernel, such as append(); no plan chooses one
};

inline constexpr KernelPass kBackwardPasses[] = {KernelPass::delta,      KernelPass::dq,
                                                 KernelPass::dk_dv,      KernelPass::dk,
                                                 KernelPass::dv,         KernelPass::d_sinks,
                                                 KernelPass::d_captures, KernelPass::dq_dk_dv,
                                                 KernelPass::dq_convert, KernelPass::ordered_dq_dk_dv};

/// Returns whether a kernel of the pass accumulates dQ over key tiles, which dq_convert rounds.
constexpr bool sums_dq(KernelPass pass) {
  return pass == KernelPass::dq_dk_dv || pass == KernelPass::ordered_dq_dk_dv;
}

template <>
inline constexpr EnumWord<KernelPass> kWords<KernelPass>[] = {
    {KernelPass::forward, "forward"},
    {KernelPass::delta, "delta"},
    {KernelPass::dq, "dq"},
    {KernelPass::dk_dv, "dk_dv"},
    {KernelPass::dk, "dk"},
    {KernelPass::dv, "dv"},
    {KernelPass::d_sinks, "d_sinks"},
    {KernelPass::d_captures, "d_captures"},
    {KernelPass::dq_dk_dv, "dq_dk_dv"},
    {KernelPass::dq_convert, "dq_convert"},
    {KernelPass::ordered_dq_dk_dv, "ordered_dq_dk_dv"},
    {KernelPass::rows, "rows"},
};
static_assert(kEnumerators<KernelPass> == std::size(kBackwardPasses) + 2, "every pass has its word");

/// Returns whether plans choose among configs of the pass. dq_convert has the tiles of the kernel that accumulates dQ; an operation
/// with a single kernel has no choice.
constexpr bool is_chosen(KernelPass pass) {
  return pass < KernelPass::dq_convert || pass == KernelPass::ordered_dq_dk_dv;
}

/// Multiples of 8 from `least` to `most`.
struct HeadDims {
  std::int32_t least = 8;
  std::int32_t most = 256;

  constexpr bool contain(std::int32_t dim) const { return dim >= least && dim <= most && dim % 8 == 0; }
};
/// Returns "must be a multiple of 8 in 8..256".
std::string rule_of(const HeadDims& dims);

/// Sizes at which the heuristic of a kernel may change its answer, for problems of the same traits.
struct HeuristicLimits {
  std::int64_t packed_rows = 0;            ///< rows of its largest tile, if it packs heads
  std::vector<std::int64_t> queries = {};  ///< query rows
  std::vector<std::int64_t> keys = {};     ///< keys of one sequence with one key/value head
};

/// All that the library knows about a kernel. Immutable; exists as long as the program. `config` below is one of the kernel's,
/// its fields in the ranges of `tunables`, except for `check`.
struct KernelKind {
  KernelId id;
  KernelPass pass;
  std::string_view main;   ///< the template that is the translation unit
  std::string_view entry;  ///< extern "C" name in it
  /// Makes the launch of a kernel of this kind: its grid, its parameters and its workspace. The room planning/ defines both
  /// structs and all functions.
  Step (*make_step)(const StepRequest& request);
  /// Operands of one section of heads under a causal mask, in bytes; 0: any. The tiles of a section's heads are interleaved, and
  /// L2 must hold what all of them read: in the forward K and V.
  std::int64_t section_bytes = 0;
  bool begins_early = false;          ///< its launches may begin while the one before ends (LaunchShape)
  HeadDims head_dims = {};            ///< of Q and K
  HeadDims head_dims_v = {};          ///< of V and O
  bool reads_e4m3 = false;            ///< whether K and V may be KvType::e4m3
  bool reads_latent_rows = false;     ///< whether K may be KvType::ds_mla
  bool finds_values_in_keys = false;  ///< whether V may be columns of K (AttentionProblem::values_in_keys)
  /// The fields that the kernel reads, in the order of KernelConfig::visit. All others must be as in KernelConfig{}.
  std::span<const Tunable> tunables = {};
  /// See default_config().
  KernelConfig default_config = {};

  bool (*runs_on)(const Arch& arch) = [](const Arch&) { return true; };
  /// Checks what the kernel computes at all, besides the head dims.
  void (*supports)(const AttentionTraits& traits, BrokenRules& rules) = [](const AttentionTraits&,
                                                                           BrokenRules&) {};
  /// Checks what fields demand of each other, the traits and the arch. The config may hold any numbers.
  void (*check)(const KernelSpec& spec, BrokenRules& rules) = [](const KernelSpec&, BrokenRules&) {};
  void (*check_registers)(const KernelSpec& spec, BrokenRules& rules) = [](const KernelSpec&, BrokenRules&) {
  };
  /// Returns the threads of a block, including warps that only load.
  int (*threads)(const KernelConfig& config) = [](const KernelConfig& config) { return 32 * config.warps; };
  /// Returns how many adjacent blocks share a tile, and run together as a cluster.
  int (*cluster)(const AttentionTraits& traits) = [](const AttentionTraits&) { return 1; };
  /// Returns the dynamic shared memory of a block in bytes.
  int (*shared_bytes)(const AttentionTraits& traits, const KernelConfig& config) =
      [](const AttentionTraits&, const KernelConfig&) { return 0; };
  /// Returns a lower bound of registers per thread: accumulators, scores, and what the loop keeps live.
  int (*estimated_registers)(const AttentionTraits& traits, const KernelConfig& config) =
      [](const AttentionTraits&, const KernelConfig&) { return 32; };
  /// Returns what tuning may try, valid or not, in a fixed order. Null: only `default_config`.
  std::vector<KernelConfig> (*configs)(const AttentionTraits& traits, const Arch& arch) = nullptr;
  /// Returns the configs to use where nothing has been measured, best first; they may be invalid. Null: only `default_config`.
  std::vector<KernelConfig> (*heuristic)(const PlannedProblem& problem, const Arch& arch) = nullptr;
  /// Returns the limits of `heuristic`. Null: sizes do not matter.
  HeuristicLimits (*heuristic_limits)(const AttentionTraits& traits, const Arch& arch) = nullptr;
  /// Returns the config for masks in texts that show most of their blocks in part; none if `heuristic` has the best one. Null: none.
  std::optional<KernelConfig> (*config_for_partial_masks)(const PlannedProblem& problem,
                                                          const Arch& arch) = nullptr;
  /// Returns whether `heuristic` comes before those of kernels that FA2_KERNELS lists later, which otherwise come first.
  bool (*is_preferred)(const PlannedProblem& problem, const Arch& arch) = [](const PlannedProblem&,
                                                                             const Arch&) { return false; };
  /// If sums_dq(pass): returns the config of the kernel that rounds what a kernel with `config` accumulates. Else null.
  KernelConfig (*conversion)(const KernelConfig& config) = nullptr;
  /// Returns the constants of config.cuh that are neither traits nor tunables.
  std::vector<RenderedConstant> (*constants)(const KernelSpec& spec) = [](const KernelSpec&) {
    return std::vector<RenderedConstant>();
  };
  /// Returns what is rendered in place of placeholders in templates/, besides config.cuh.
  std::vector<SourceFile> (*headers)(const KernelSpec& spec) = [](const KernelSpec&) {
    return std::vector<SourceFile>();
  };
  /// Returns whether the kernel reads a trait. All others are neither rendered nor part of the key. Null: it reads every trait.
  bool (*reads)(std::string_view trait) = nullptr;

  std::string_view name() const { return word_of(id); }
  /// Returns configs(), or `default_config` alone.
  std::vector<KernelConfig> every_config(const AttentionTraits& traits, const Arch& arch) const {
    return configs == nullptr ? std::vector{default_config} : configs(traits, arch);
  }
  /// Returns nullptr if the kernel has no tunable of that name.
  const Tunable* tunable(std::string_view name) const;
};

namespace kernels {

#define FA2_DECLARE(name) extern const KernelKind name;
FA2_KERNELS(FA2_DECLARE)
#undef FA2_DECLARE

}  // namespace kernels

/// Returns the kinds of all kernels, in the order of KernelId.
std::span<const KernelKind* const> kernel_kinds();

/// Returns the kernel's kind. @throws InvalidRequest if `kernel` is no enumerator.
const KernelKind& kind_of(KernelId kernel);
inline const KernelKind& kind_of(const KernelConfig& config) {
  return kind_of(config.kernel);
}
inline KernelPass pass_of(const KernelConfig& config) {
  return kind_of(config).pass;
}

/// Returns the range of `dims`, &KernelKind::head_dims or &KernelKind::head_dims_v, over all kernels that compute `pass`.
HeadDims head_dims_of(KernelPass pass, HeadDims KernelKind::*dims);

/// Returns whether a launch splits the keys of tiles over blocks.
bool splits_keys(const KernelConfig& config);

/// Returns whether blocks take tile after tile, so that a launch has at most as many as the device runs at once.
bool is_persistent(const KernelConfig& config);

/// Returns the value required of a field that the kind ignores.
std::int32_t neutral_value(std::string_view field);

/// Calls field(name, value) for the kernel's own tunables, and for rare and others' ones that are not neutral. So texts, records and rendered
/// configs of a kernel stay as they are when another kernel gets a tunable.
template <class Visitor>
void visit_own(const KernelConfig& config, Visitor&& field) {
  const KernelKind* kind = is_enumerator(config.kernel) ? &kind_of(config) : nullptr;
  KernelConfig::visit(config, [&](std::string_view name, std::int32_t value) {
    const Tunable* const own = kind == nullptr ? nullptr : kind->tunable(name);
    const bool is_named = kind == nullptr || (own != nullptr && !own->is_rare);
    if (is_named || value != neutral_value(name)) field(name, value);
  });
}

}  // namespace fa2
