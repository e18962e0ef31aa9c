// Reads callers' structs, which may be of another version.
#include <api/c_read_struct.h>
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

/// Runs `check` and adds the violations that it throws.
template <class Check>
void append_refusals(Found& found, const Check& check) {
  try {
    check();
  } catch (const InvalidRequest& error) {
    append(found, error.violations());
  }
}

/// Reads a struct and converts its members. `name` is the argument's; `prefix` precedes the names of its fields.
template <class Struct, class C>
std::optional<Struct> read_members(const C* pointer, const std::string& name, const std::string& prefix,
                                   Found& found) {
  const auto from = read_struct(pointer, name, found);
  if (!from) return std::nullopt;
  return members_of<Struct>(*from, prefix, found);
}

Determinism determinism_of(std::int32_t flags) {
  return (flags & FA2_BITWISE) != 0 ? Determinism::bitwise : Determinism::fastest;
}

/// Returns the PlanOptions of a struct that has row_alignment.
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

/// Converts FA2_FASTEST and FA2_BITWISE, whose values are not those of Determinism.
template <>
Determinism enum_of(std::int32_t value, const std::string& field, Found& found) {
  if (value != FA2_FASTEST && value != FA2_BITWISE)
    found.push_back({field, fmt::format("{}", value), "must be FA2_FASTEST (0) or FA2_BITWISE (256)"});
  return determinism_of(value);
}

std::optional<AttentionProblem> problem_of(const fa2_problem* pointer, Found& found) {
  return read_members<AttentionProblem>(pointer, "problem", "", found);
}
std::optional<AppendProblem> problem_of(const fa2_append_problem* pointer, Found& found) {
  return read_members<AppendProblem>(pointer, "problem", "", found);
}
std::optional<MergeProblem> problem_of(const fa2_merge_problem* pointer, Found& found) {
  return read_members<MergeProblem>(pointer, "problem", "", found);
}

std::optional<AttentionArgs> args_of(const fa2_args* pointer, Found& found) {
  return read_members<AttentionArgs>(pointer, "args", "", found);
}
std::optional<AppendArgs> args_of(const fa2_append_args* pointer, Found& found) {
  return read_members<AppendArgs>(pointer, "args", "", found);
}
std::optional<MergeArgs> args_of(const fa2_merge_args* pointer, Found& found) {
  return read_members<MergeArgs>(pointer, "args", "", found);
}

std::optional<BackwardArgs> args_of(const fa2_backward_args* pointer, Found& found) {
  const auto from = read_struct(pointer, "args", found);
  if (!from) return std::nullopt;
  BackwardArgs args = members_of<BackwardArgs>(*from, "", found);
  const auto forward = read_members<AttentionArgs>(from->forward, "forward", "", found);
  if (!forward) return std::nullopt;
  args.forward = *forward;
  return args;
}

Gradients gradients_of(std::int32_t flags, Found& found) {
  Gradients gradients{.determinism = determinism_of(flags)};
  std::int32_t unknown = flags & ~FA2_BITWISE, bit = 1;
  std::string names;
  each_row<Gradients>([&](const auto& row) {
    auto& gradient = gradients.*row.member;
    if constexpr (std::is_same_v<decltype(gradient), bool&>) {
      gradient = (flags & bit) != 0;
      unknown &= ~bit;
      if (unknown != 0) names += fmt::format("{} ({}), ", row.text.name, bit);
      bit *= 2;
    }
  });
  if (unknown != 0)
    found.push_back(
        {"gradients", fmt::format("{}", flags), fmt::format("must be a sum of {}FA2_BITWISE (256)", names)});
  return gradients;
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
  options_.merge = flag_of(from->merge, "merge", found);
  if (from->out != nullptr) options_.out = from->out;
  if (from->requests != nullptr) options_.requests = from->requests;
  options_.shard = from->shard;
  options_.shards = from->shards == 0 ? 1 : from->shards;
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
  if (!has_known_size<fa2_problem>(stride, "problems", found)) return converted;
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
    converted[i] = read_members<AttentionProblem>(problem, name, name + ".", found).value_or(kUnread);
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
