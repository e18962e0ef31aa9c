// The kernel that adds gradients in parts.
#include <generator/kernel_kind.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/rules.h>

namespace fa2 {
namespace {

constexpr Tunable kTunables[] = {{"warps", 1, 16}};

}  // namespace

constexpr KernelKind kernels::sum_parts = {
    .id = KernelId::sum_parts,
    .pass = KernelPass::rows,
    .main = "attention/rows/sum.cu",
    .entry = "fa2_sum_parts",
    .make_step = sum_parts_step,
    .tunables = kTunables,
    .default_config = {.kernel = KernelId::sum_parts},
    .reads = is_row_trait,
};

}  // namespace fa2
