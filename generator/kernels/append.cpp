// What the kernel that appends to a cache can be asked for.
#include <generator/kernels/append.h>
#include <generator/kernels/mma_rules.h>

namespace fa2 {
namespace {

constexpr Tunable kTunables[] = {{"warps", 1, 16}};

}  // namespace

constexpr KernelKind kAppend = {
    .mainloop = 80,
    .pass = KernelPass::append,
    .name = "append",
    .main = "attention/rows/append.cu",
    .entry = "fa2_append",
    .make_step = append_step,
    .section_bytes = 0,
    .tunables = kTunables,
    .default_config = {.mainloop = 80, .pass = static_cast<std::int32_t>(KernelPass::append)},
    .runs_on = [](const Arch&) { return true; },
    .check = [](const KernelSpec&, BrokenRules&) {},
    .check_registers = [](const KernelSpec&, BrokenRules&) {},
    .threads = mma_rules::threads,
    .shared_bytes = [](const AttentionTraits&, const KernelConfig&) { return 0; },
    .estimated_registers = [](const AttentionTraits&, const KernelConfig&) { return 40; },
    .configs = [](const AttentionTraits&, const Arch&) { return std::vector{kAppend.default_config}; },
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
