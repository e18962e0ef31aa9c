// The kernel that puts messages into memory of other ranks.
#include <generator/kernel_kind.h>
#include <generator/kernels/launch_steps.h>

namespace fa2 {
namespace {

constexpr Tunable kTunables[] = {{"warps", 1, 16}};

}  // namespace

constexpr KernelKind kernels::put_messages = {
    .id = KernelId::put_messages,
    .pass = KernelPass::rows,
    .main = "attention/rows/put.cu",
    .entry = "fa2_put_messages",
    .make_step = put_messages_step,
    .head_dims = {.least = 0},  // it reads none
    .head_dims_v = {.least = 0},
    .tunables = kTunables,
    .default_config = {.kernel = KernelId::put_messages, .warps = 16},
    .reads = [](std::string_view) { return false; },
};

}  // namespace fa2
