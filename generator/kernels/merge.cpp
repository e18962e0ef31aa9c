// The kernel that merges partial outputs.
#include <generator/kernel_kind.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/rules.h>

namespace fa2 {
namespace {

constexpr Tunable kTunables[] = {{"warps", 1, 16}};

}  // namespace

constexpr KernelKind kernels::merge = {
    .id = KernelId::merge,
    .pass = KernelPass::rows,
    .main = "attention/rows/merge.cu",
    .entry = "fa2_merge",
    .make_step = merge_step,
    .head_dims = {.most = 512},
    .head_dims_v = {.most = 512},
    .tunables = kTunables,
    .default_config = {.kernel = KernelId::merge},
    .supports =
        [](const AttentionTraits& traits, BrokenRules& rules) {
          rules.expect(traits.head_dim == traits.head_dim_v, "head_dim_v = {}, must be head_dim = {}",
                       traits.head_dim_v, traits.head_dim);
        },
    .reads = [](std::string_view trait) { return is_row_trait(trait) || trait == "lse_base"; },
};

}  // namespace fa2
