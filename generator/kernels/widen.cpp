// The kernel that widens 8-bit keys and values.
#include <generator/kernel_kind.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/rules.h>

namespace fa2 {
namespace {

constexpr Tunable kTunables[] = {{"warps", 1, 16}};

bool reads(std::string_view trait) {
  return trait == "dtype" || trait == "head_dim" || trait == "head_dim_v" || trait == "varlen" ||
         trait == "page_size" || trait == "kv_type";
}

}  // namespace

constexpr KernelKind kernels::widen = {
    .id = KernelId::widen,
    .pass = KernelPass::rows,
    .main = "attention/rows/widen.cu",
    .entry = "fa2_widen",
    .make_step = widen_step,
    .begins_early = true,
    .reads_e4m3 = true,
    .tunables = kTunables,
    .default_config = {.kernel = KernelId::widen},
    .supports =
        [](const AttentionTraits& traits, BrokenRules& rules) {
          rules.expect(traits.kv_type == KvType::e4m3,
                       "kv_type = {}, must be e4m3: others need not be widened", to_string(traits.kv_type));
        },
    .estimated_registers = [](const AttentionTraits&, const KernelConfig&) { return 32; },
    .constants = constants_of_e4m3,
    .reads = reads,
};

}  // namespace fa2
