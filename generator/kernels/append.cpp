// The kernel that appends to a cache.
#include <generator/kernel_kind.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/rules.h>

namespace fa2 {
namespace {

constexpr Tunable kTunables[] = {{"warps", 1, 16}};

}  // namespace

constexpr KernelKind kernels::append = {
    .id = KernelId::append,
    .pass = KernelPass::rows,
    .main = "attention/rows/append.cu",
    .entry = "fa2_append",
    .make_step = append_step,
    .head_dims = {.most = 576},
    .head_dims_v = {.most = 512},
    .reads_e4m3 = true,
    .reads_latent_rows = true,
    .tunables = kTunables,
    .default_config = {.kernel = KernelId::append},
    .estimated_registers = [](const AttentionTraits&, const KernelConfig&) { return 40; },
    .constants = constants_of_e4m3,
    .reads = [](std::string_view trait) { return is_row_trait(trait) || trait == "kv_type"; },
};

}  // namespace fa2
