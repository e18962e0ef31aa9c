// What the kernel that writes dropout's mask can be asked for.
#include <generator/kernels/dropout_mask.h>
#include <generator/kernels/mma_rules.h>

namespace fa2 {
namespace {

constexpr Tunable kTunables[] = {{"warps", 1, 16}};

}  // namespace

constexpr KernelKind kDropoutMask = {
    .mainloop = 80,
    .pass = KernelPass::dropout_mask,
    .name = "dropout_mask",
    .main = "attention/rows/dropout_mask.cu",
    .entry = "fa2_dropout_mask",
    .make_step = dropout_mask_step,
    .section_bytes = 0,
    .tunables = kTunables,
    .default_config = {.mainloop = 80, .pass = static_cast<std::int32_t>(KernelPass::dropout_mask)},
    .runs_on = [](const Arch&) { return true; },
    .check = [](const KernelSpec&, BrokenRules&) {},
    .check_registers = [](const KernelSpec&, BrokenRules&) {},
    .threads = mma_rules::threads,
    .shared_bytes = [](const AttentionTraits&, const KernelConfig&) { return 0; },
    .estimated_registers = [](const AttentionTraits&, const KernelConfig&) { return 32; },
    .configs = [](const AttentionTraits&, const Arch&) { return std::vector{kDropoutMask.default_config}; },
    .constants =
        [](const KernelSpec&) {
          return std::vector<RenderedConstant>{{"packed_heads", 1}, {"dropout", 1}};
        },
    .wgmma_shapes = [](const KernelSpec&) { return std::vector<WgmmaShape>(); },
    .reads = [](std::string_view) { return false; },
};

}  // namespace fa2
