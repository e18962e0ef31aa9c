// The kernels there are, one row each. A new one is a row with its rules, in a file of generator/rules, its name in
// kernel_kind.cpp, and its templates; tunables that no other has are fields of KernelConfig.
#pragma once

#include <core/enum_words.h>
#include <fa2/config.h>
#include <fa2/errors.h>
#include <generator/kernel_spec.h>
#include <generator/wgmma_shapes.h>

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

class BrokenRules;
struct Step;
struct StepRequest;

/// A field of KernelConfig that a kind understands, and the values it may have by itself.
struct Tunable {
  std::string_view name;  ///< as KernelConfig::visit has it
  std::int32_t least = 0;
  std::int32_t most = 0;
  std::int32_t multiple_of = 1;
};

/// A constant of the rendered config.cuh beside traits, config and shared memory.
struct RenderedConstant {
  std::string_view name;
  std::int32_t value = 0;
};

/// The values of KernelConfig::pass.
enum class KernelPass : std::int32_t {
  forward,
  delta,
  dq,
  dk_dv,
  dk,
  dv,
  d_sinks,
  dq_dk_dv,
  dq_convert,
  ordered_dq_dk_dv,
  dropout_mask,
  merge,
  append
};

inline constexpr KernelPass kBackwardPasses[] = {
    KernelPass::delta,    KernelPass::dq,         KernelPass::dk_dv,
    KernelPass::dk,       KernelPass::dv,         KernelPass::d_sinks,
    KernelPass::dq_dk_dv, KernelPass::dq_convert, KernelPass::ordered_dq_dk_dv};

/// Whether a kernel adds tiles of keys' shares to dQ, which dq_convert rounds.
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
    {KernelPass::dq_dk_dv, "dq_dk_dv"},
    {KernelPass::dq_convert, "dq_convert"},
    {KernelPass::ordered_dq_dk_dv, "ordered_dq_dk_dv"},
    {KernelPass::dropout_mask, "dropout_mask"},
    {KernelPass::merge, "merge"},
    {KernelPass::append, "append"},
};
static_assert(kEnumerators<KernelPass> == std::size(kBackwardPasses) + 4, "every pass has its word");

/// Returns whether plans choose among configs of the pass. dq_convert has the tiles of the kernel that accumulates dQ; the kernels
/// of dropout_mask(), merge() and append() have no choice.
constexpr bool is_chosen(KernelPass pass) {
  return pass < KernelPass::dq_convert || pass == KernelPass::ordered_dq_dk_dv;
}

constexpr KernelPass pass_of(const KernelConfig& config) {
  return static_cast<KernelPass>(config.pass);
}

/// Immutable; every row lives as long as the program. `config` below is one of this kind, its fields in the ranges
/// of `tunables`, except for `check`.
struct KernelKind {
  std::int32_t mainloop;   ///< KernelConfig::mainloop of its configs
  KernelPass pass;         ///< KernelConfig::pass of them; no other kind has both
  std::string_view name;   ///< "forward_sm80"
  std::string_view main;   ///< the template that is the translation unit
  std::string_view entry;  ///< extern "C" name in it
  /// Makes the launch of a kernel of this kind: its grid, its parameters and its workspace. The room planning/ defines both
  /// structs and all functions.
  Step (*make_step)(const StepRequest& request);
  /// Under a causal mask tiles of several heads are interleaved: of as many as have so many bytes that all tiles go over,
  /// in the forward keys and values (what L2 holds). 0: bytes do not matter.
  std::int64_t section_bytes;
  /// All fields but `mainloop` and `pass`, in the order of KernelConfig::visit. Fields left out must be as in KernelConfig{}.
  std::span<const Tunable> tunables;
  /// Computes every problem that the kind computes at all; of the backward on wgmma, those of head dims from 72 to 128.
  KernelConfig default_config;

  bool (*runs_on)(const Arch& arch);
  /// What fields demand of each other, of the traits and the arch. Any numbers may stand in the config.
  void (*check)(const KernelSpec& spec, BrokenRules& rules);
  void (*check_registers)(const KernelSpec& spec, BrokenRules& rules);
  /// Of a block, the warps that only load among them.
  int (*threads)(const KernelConfig& config);
  /// Dynamic shared memory of a block.
  int (*shared_bytes)(const AttentionTraits& traits, const KernelConfig& config);
  /// A lower bound of registers per thread: accumulators, scores, and what the loop keeps live.
  int (*estimated_registers)(const AttentionTraits& traits, const KernelConfig& config);
  /// What tuning may try, valid or not, in a fixed order.
  std::vector<KernelConfig> (*configs)(const AttentionTraits& traits, const Arch& arch);
  std::vector<RenderedConstant> (*constants)(const KernelSpec& spec);
  std::vector<WgmmaShape> (*wgmma_shapes)(const KernelSpec& spec);
  /// Returns whether the kernel reads a trait. All others are neither rendered nor part of the key. Null: it reads every trait.
  bool (*reads)(std::string_view trait) = nullptr;

  /// nullptr if it has no tunable of that name.
  const Tunable* tunable(std::string_view name) const;
};

/// In a fixed order.
std::span<const KernelKind* const> kernel_kinds();

/// Whether blocks of a launch share out the keys of tiles, and not tiles alone.
bool splits_keys(const KernelConfig& config);

/// nullptr if no kind has such configs.
const KernelKind* find_kind(const KernelConfig& config);

/// Says which numbers KernelConfig::mainloop may have: "must be 80 or 90".
std::string known_kinds_rule();

/// Returns which field of a config names no kernel that plans choose, and the numbers that do.
Violation unknown_kind(const KernelConfig& config);

/// @throws InvalidRequest if no kind has such configs.
const KernelKind& kind_of(const KernelConfig& config);

/// What a config has in a field that its kind does not know.
std::int32_t neutral_value(std::string_view field);

/// KernelConfig::visit without the fields that say nothing: those unknown to the config's kind, unless they are set
/// all the same. Texts, records and rendered kernels of a kind stay as they are when another gets a tunable.
template <class Visitor>
void visit_own(const KernelConfig& config, Visitor&& field) {
  const KernelKind* kind = find_kind(config);
  KernelConfig::visit(config, [&](std::string_view name, std::int32_t value) {
    const bool is_known = kind == nullptr || name == "mainloop" || kind->tunable(name) != nullptr;
    if (is_known || value != neutral_value(name)) field(name, value);
  });
}

}  // namespace fa2
