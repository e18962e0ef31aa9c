// What callers' structs hold, as this library knows them.
#include <api/c_fields.h>
#include <api/c_structs.h>
#include <api/settings.h>
#include <core/arch.h>
#include <fmt/format.h>
#include <operation/rules/validate.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace fa2 {

namespace {

/// Adds what `check` refuses.
template <class Check>
void append_refusals(Found& found, const Check& check) {
  try {
    check();
  } catch (const InvalidRequest& error) {
    append(found, error.violations());
  }
}

/// `prefix` goes before the names of fields.
std::optional<AttentionProblem> read_problem(const fa2_problem* pointer, const std::string& name,
                                             const std::string& prefix, Found& found) {
  const auto from = read_struct(pointer, name, found);
  if (!from) return std::nullopt;
  AttentionProblem problem;
  problem.dtype = enum_of<DType>(from->dtype, prefix + "dtype", found);
  problem.mask = enum_of<MaskKind>(from->mask, prefix + "mask", found);
  problem.head_dim = from->head_dim;
  problem.head_dim_v = from->head_dim_v;
  problem.batch = from->batch;
  problem.heads_q = from->heads_q;
  problem.heads_kv = from->heads_kv;
  problem.seqlen_q = from->seqlen_q;
  problem.seqlen_k = from->seqlen_k;
  if (from->has_window_left != 0) problem.window_left = from->window_left;
  if (from->has_window_right != 0) problem.window_right = from->window_right;
  problem.softcap = from->softcap != 0;
  problem.alibi = from->alibi != 0;
  problem.sinks = from->sinks != 0;
  problem.dropout = from->dropout != 0;
  problem.varlen = from->varlen != 0;
  problem.total_q = from->total_q;
  problem.total_k = from->total_k;
  problem.page_size = from->page_size;
  problem.page_count = from->page_count;
  problem.batch_invariant = from->batch_invariant != 0;
  return problem;
}

std::optional<AttentionArgs> read_args(const fa2_args* pointer, const std::string& name, Found& found) {
  const auto from = read_struct(pointer, name, found);
  if (!from) return std::nullopt;
  AttentionArgs args;
  args.q = from->q.data;
  args.k = from->k.data;
  args.v = from->v.data;
  args.o = from->o.data;
  args.lse = from->lse;
  args.q_strides = strides_of(from->q);
  args.k_strides = strides_of(from->k);
  args.v_strides = strides_of(from->v);
  args.o_strides = strides_of(from->o);
  args.softcap = from->softcap;
  args.alibi_slopes = from->alibi_slopes;
  args.alibi_slopes_per_batch = from->alibi_slopes_per_batch != 0;
  args.sinks = from->sinks;
  args.dropout = {from->dropout, from->dropout_seed, from->dropout_offset, from->dropout_state};
  args.workspace = from->workspace;
  args.cu_seqlens_q = from->cu_seqlens_q;
  args.cu_seqlens_k = from->cu_seqlens_k;
  args.seqused_q = from->seqused_q;
  args.seqused_k = from->seqused_k;
  args.page_table = from->page_table;
  args.page_table_stride = from->page_table_stride;
  check_reserved(from->reserved, "reserved", found);
  if (from->has_softmax_scale != 0) args.softmax_scale = from->softmax_scale;
  args.empty_row_lse = enum_of<EmptyRowLse>(from->empty_row_lse, "empty_row_lse", found);
  return args;
}

Determinism determinism_of(std::int32_t flags) {
  return (flags & FA2_BITWISE) != 0 ? Determinism::bitwise : Determinism::fastest;
}

/// The part that several structs have.
template <class Struct>
PlanOptions plan_options_of(const Struct& from, Found& found) {
  return {.row_alignment = enum_of<RowAlignment>(from.row_alignment, "row_alignment", found)};
}

void check_device(std::int32_t device, Found& found) {
  if (device >= FA2_INTERPRETER_DEVICE) return;
  found.push_back({"device", fmt::format("{}", device),
                   "must be a CUDA ordinal, -1 for the current device or -2 for the interpreter"});
}

}  // namespace

void append(Found& found, Found more) {
  std::ranges::move(more, std::back_inserter(found));
}

void require_none(Found& found) {
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

bool is_given(const void* pointer, const std::string& name, Found& found) {
  if (pointer == nullptr) found.push_back({name, "NULL", "must not be NULL"});
  return pointer != nullptr;
}

std::optional<AttentionProblem> problem_of(const fa2_problem* pointer, Found& found) {
  return read_problem(pointer, "problem", "", found);
}

std::optional<AttentionArgs> args_of(const fa2_args* pointer, Found& found) {
  return read_args(pointer, "args", found);
}

std::optional<BackwardArgs> args_of(const fa2_backward_args* pointer, Found& found) {
  const auto from = read_struct(pointer, "args", found);
  if (!from) return std::nullopt;
  if (from->determinism != FA2_FASTEST && from->determinism != FA2_BITWISE)
    found.push_back({"determinism", fmt::format("{}", from->determinism),
                     "must be FA2_FASTEST (0) or FA2_BITWISE (256)"});
  const auto forward = read_args(from->forward, "forward", found);
  if (!forward) return std::nullopt;
  BackwardArgs args;
  args.forward = *forward;
  args.d_o = from->d_o.data;
  args.d_lse = from->d_lse;
  args.dq = from->dq.data;
  args.dk = from->dk.data;
  args.dv = from->dv.data;
  args.d_sinks = from->d_sinks;
  args.determinism = determinism_of(from->determinism);
  args.d_o_strides = strides_of(from->d_o);
  args.dq_strides = strides_of(from->dq);
  args.dk_strides = strides_of(from->dk);
  args.dv_strides = strides_of(from->dv);
  args.workspace = from->workspace;
  return args;
}

Gradients gradients_of(std::int32_t flags, Found& found) {
  if ((flags & ~(FA2_ALL_GRADIENTS | FA2_D_SINKS | FA2_BITWISE)) != 0)
    found.push_back({"gradients", fmt::format("{}", flags),
                     "must be FA2_DQ (1), FA2_DK (2), FA2_DV (4), FA2_D_SINKS (8) or a sum of them, and "
                     "FA2_BITWISE (256)"});
  return {.dq = (flags & FA2_DQ) != 0,
          .dk = (flags & FA2_DK) != 0,
          .dv = (flags & FA2_DV) != 0,
          .d_sinks = (flags & FA2_D_SINKS) != 0,
          .determinism = determinism_of(flags)};
}

ContextOptions options_of(const fa2_context_options* pointer) {
  ContextOptions options;
  if (pointer == nullptr) return options;
  Found found;
  const auto from = read_struct(pointer, "options", found);
  if (from) {
    options.tune = choice_of<TuneMode>(from->tune, "tune", found);
    options.jit = choice_of<JitMode>(from->jit, "jit", found);
    if (from->tune_budget_ms != 0) options.tune_budget_ms = from->tune_budget_ms;
    if (from->cache_dir != nullptr) options.cache_dir = from->cache_dir;
    if (from->read_only_caches != nullptr) options.read_only_caches = split_paths(from->read_only_caches);
    if (from->config != nullptr) append_refusals(found, [&] { options.config = parse_config(from->config); });
  }
  if (!found.empty()) append_refusals(found, [&] { settings_of(options); });
  require_none(found);
  return options;
}

PlanOptions options_of(const fa2_plan_options* pointer, Found& found) {
  if (pointer == nullptr) return {};
  const auto from = read_struct(pointer, "options", found);
  return from ? plan_options_of(*from, found) : PlanOptions{};
}

PrecompileRequest::PrecompileRequest(const fa2_precompile_options* pointer, Found& found) {
  if (pointer == nullptr) return;
  const auto from = read_struct(pointer, "options", found);
  if (!from) return;
  options_.scope = enum_of<PrecompileScope>(from->scope, "scope", found);
  options_.jobs = from->jobs;
  if (from->jobs < 0) found.push_back({"jobs", fmt::format("{}", from->jobs), "must be at least 0"});
  options_.plans = {plan_options_of(*from, found)};
  check_reserved(from->reserved, "reserved", found);
  options_.backward = flag_of(from->backward, "backward", found);
  options_.append = flag_of(from->append, "append", found);
  options_.merge = flag_of(from->combine, "combine", found);
  if (from->out != nullptr) options_.out = from->out;
  progress_ = from->progress;
  progress_data_ = from->progress_data;
  if (progress_ != nullptr) options_.observer = this;
}

TuneOptions options_of(const fa2_tune_options* pointer, Found& found) {
  if (pointer == nullptr) return {};
  const auto from = read_struct(pointer, "options", found);
  if (!from) return {};
  return {.scope = enum_of<TuneScope>(from->scope, "scope", found),
          .plan = plan_options_of(*from, found),
          .backward = flag_of(from->backward, "backward", found)};
}

std::vector<AttentionProblem> problems_of(const fa2_problem* problems, std::size_t count, Found& found) {
  constexpr AttentionProblem kUnread{.head_dim = 8};
  std::vector<AttentionProblem> converted;
  if (count == 0 || !is_given(problems, "problems", found)) return converted;
  const std::size_t stride = problems->struct_size;
  if (!has_sound_size<fa2_problem>(stride, "problems", found)) return converted;
  converted.assign(count, kUnread);
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(problems);
  for (std::size_t i = 0; i < count; ++i) {
    const fa2_problem* problem = reinterpret_cast<const fa2_problem*>(bytes + i * stride);
    if (problem->struct_size != stride) {
      found.push_back({"problems", fmt::format("element {} with struct_size {}", i, problem->struct_size),
                       fmt::format("must all have the first one's struct_size, {}", stride)});
      continue;
    }
    const std::string name = fmt::format("problems[{}]", i);
    converted[i] = read_problem(problem, name, name + ".", found).value_or(kUnread);
  }
  return converted;
}

std::vector<std::string> archs_of(const char* const* archs, std::size_t count, Found& found) {
  if (count == 0 || !is_given(archs, "archs", found)) return {};
  std::vector<std::string> converted(count, std::string(known_archs().front().name));
  for (std::size_t i = 0; i < count; ++i) {
    if (is_given(archs[i], fmt::format("archs[{}]", i), found)) converted[i] = archs[i];
  }
  return converted;
}

AttentionProblem problem_on(const fa2_problem* pointer, std::int32_t device, Found found) {
  const auto problem = problem_of(pointer, found);
  check_device(device, found);
  if (!found.empty() && problem) append(found, violations_of(*problem));
  require_none(found);
  return *problem;
}

}  // namespace fa2
