// The rules, the memory and the plan of two steps.
#include <generator/kernel_kind.h>
#include <generator/kernels/wgmma_rules.h>
#include <generator/key_value_format.h>
#include <generator/sequences.h>
#include <planning/step_request.h>
#include <planning/widened_keys.h>

#include <utility>

namespace fa2 {
namespace {

// Two steps are faster from so many query rows of one key/value head on; from fewer on where kernels that read 8 bits have too few
// tiles, of 64 rows, to fill a GPU (docs/kernel-notes.md).
constexpr std::int64_t kManyRows = 160, kSomeRows = 64, kFewTiles = 128;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

}  // namespace

WidenedLayout widened_layout(const AttentionProblem& p) {
  const bool is_packed = p.total_k > 0;
  WidenedLayout layout{.entries = is_packed ? 1 : p.batch, .rows = is_packed ? p.total_k : p.seqlen_k};
  const auto bytes = [&](std::int32_t dim) {
    return static_cast<std::size_t>(layout.entries * layout.rows * p.heads_kv) *
           static_cast<std::size_t>(dim) * size_of(p.dtype);
  };
  layout.values = whole_part(bytes(p.head_dim));
  layout.bytes = layout.values + bytes(p.head_dim_v);
  return layout;
}

PlannedProblem widened_problem(PlannedProblem p) {
  p.kv_type = KvType::scaled;
  p.page_size = 0;
  p.page_count = 0;
  return p;
}

bool may_widen(const PlannedProblem& p, const Arch& arch) {
  const bool has_dims =
      kernels::widen.head_dims.contain(p.head_dim) && kernels::widen.head_dims_v.contain(p.head_dim_v);
  return p.kv_type == KvType::e4m3 && !p.batch_invariant && !p.missing_pages &&
         p.row_alignment == RowAlignment::bytes16 && has_dims && wgmma_rules::runs_on(arch);
}

bool widens_keys(const PlannedProblem& p, const Target& target, const ConfigChooser& chooser) {
  if (!may_widen(p, target.arch) || p.seqlen_k == 0) return false;
  if (chooser.pins(KernelPass::forward))
    return !chooser.pin_computes(p, target) && chooser.pin_computes(widened_problem(p), target);
  const std::int64_t rows = with_mean_lengths(p).seqlen_q * (p.heads_q / p.heads_kv);
  const bool has_few_tiles = p.batch * p.heads_kv * ((rows + 63) / 64) < kFewTiles;
  return rows >= (has_few_tiles ? kSomeRows : kManyRows) && widened_layout(p).bytes <= kMostBytes;
}

RowKernel widen_kernel(const PlannedProblem& p) {
  PlannedProblem rows;
  rows.dtype = p.dtype;
  rows.head_dim = p.head_dim;
  rows.head_dim_v = p.head_dim_v;
  rows.varlen = p.varlen;
  rows.page_size = p.page_size;
  rows.page_count = p.page_size > 0 ? 1 : 0;
  rows.kv_type = p.kv_type;
  return {rows.normalized(), default_config(KernelId::widen)};
}

ConfigChoice widen_choice() {
  return {default_config(KernelId::widen), ConfigOrigin::heuristic, "the only kernel that widens keys", {}};
}

void add_widening(Plan& plan, std::shared_ptr<const Kernel> kernel) {
  plan.widened = widened_problem(plan.problem);
  plan.add(kernels::widen.make_step({.problem = static_cast<const AttentionProblem&>(plan.problem),
                                     .config = default_config(KernelId::widen),
                                     .kernel = std::move(kernel)}));
}

WidenedCall::WidenedCall(const AttentionProblem& widened, const Call& call)
    : args_(call.args.as<AttentionArgs>()),
      operands_(operands_of(widened, args_)),
      call_{.problem = widened,
            .args = args_,
            .operands = operands_,
            .counters = call.counters,
            .scratch = call.scratch,
            .written = call.written} {
  const WidenedLayout layout = widened_layout(widened);
  args_.k = call.scratch;
  args_.v = call.scratch + layout.values;
  args_.k_strides = TensorStrides::bshd(layout.rows, widened.heads_kv, widened.head_dim);
  args_.v_strides = TensorStrides::bshd(layout.rows, widened.heads_kv, widened.head_dim_v);
  args_.page_table = nullptr;
  args_.page_table_stride = 0;
  operands_ = operands_of(widened, args_);
  call_.operands = operands_;
}

}  // namespace fa2
