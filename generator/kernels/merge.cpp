// What the kernel that merges attention over parts of the keys can be asked for.
#include <generator/kernels/merge.h>
#include <generator/kernels/mma_rules.h>

namespace fa2 {
namespace {

constexpr Tunable kTunables[] = {{"warps", 1, 16}};

}  // namespace

constexpr KernelKind kMerge = {
    .mainloop = 80,
    .pass = KernelPass::merge,
    .name = "merge",
    .main = "attention/rows/merge.cu",
    .entry = "fa2_merge",
    .make_step = merge_step,
    .section_bytes = 0,
    .tunables = kTunables,
    .default_config = {.mainloop = 80, .pass = static_cast<std::int32_t>(KernelPass::merge)},
    .runs_on = [](const Arch&) { return true; },
    .check =
        [](const KernelSpec& spec, BrokenRules& rules) {
          rules.expect(spec.traits.head_dim == spec.traits.head_dim_v, "there is one head dim");
        },
    .check_registers = [](const KernelSpec&, BrokenRules&) {},
    .threads = mma_rules::threads,
    .shared_bytes = [](const AttentionTraits&, const KernelConfig&) { return 0; },
    .estimated_registers = [](const AttentionTraits&, const KernelConfig&) { return 32; },
    .configs = [](const AttentionTraits&, const Arch&) { return std::vector{kMerge.default_config}; },
    .constants =
        [](const KernelSpec&) {
          return std::vector<RenderedConstant>{{"packed_heads", 1}};
        },
    .wgmma_shapes = [](const KernelSpec&) { return std::vector<WgmmaShape>(); },
    .reads =
        [](std::string_view trait) {
          return trait == "dtype" || trait == "head_dim" || trait == "head_dim_v" || trait == "row_alignment";
        },
};

}  // namespace fa2
