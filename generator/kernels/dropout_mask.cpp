// The kernel that writes a dropout mask.
#include <generator/kernel_kind.h>
#include <generator/kernels/launch_steps.h>

namespace fa2 {
namespace {

constexpr Tunable kTunables[] = {{"warps", 1, 16}};

}  // namespace

constexpr KernelKind kernels::dropout_mask = {
    .id = KernelId::dropout_mask,
    .pass = KernelPass::rows,
    .main = "attention/rows/dropout_mask.cu",
    .entry = "fa2_dropout_mask",
    .make_step = dropout_mask_step,
    .head_dims = {.least = 0},  // it reads none
    .head_dims_v = {.least = 0},
    .tunables = kTunables,
    .default_config = {.kernel = KernelId::dropout_mask},
    .constants =
        [](const KernelSpec&) {
          return std::vector<RenderedConstant>{{"dropout", 1}};
        },
    .reads = [](std::string_view) { return false; },
};

}  // namespace fa2
