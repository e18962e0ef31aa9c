// The C interface over the C++ one: conversions, and exceptions turned into codes.
#include <api/explanation.h>
#include <api/validate.h>
#include <fa2/attention.h>
#include <fa2/c_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

struct fa2_context {
  fa2::Context context;
};

struct fa2_plan {
  fa2::AttentionPlan plan;
};

namespace {

using namespace fa2;

// Part of the C interface: fa2_last_error() is per thread.
thread_local std::string last_error;

fa2_status fail(fa2_status status, const char* message) noexcept {
  try {
    last_error = message;
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return status;
}

/// Runs `body`; every exception becomes a status and the thread's message.
template <class Body>
fa2_status guarded(Body&& body) noexcept {
  try {
    body();
    return FA2_OK;
  } catch (const Error& error) {
    return fail(static_cast<fa2_status>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return fail(FA2_INTERNAL, "out of host memory");
  } catch (const std::exception& error) {
    return fail(FA2_INTERNAL, error.what());
  } catch (...) {
    return fail(FA2_INTERNAL, "an unknown exception");
  }
}

[[noreturn]] void refuse(const char* field, std::string value, std::string rule) {
  throw InvalidProblem({{field, std::move(value), std::move(rule)}});
}

template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) refuse(name, "NULL", "must not be NULL");
  return *pointer;
}

// The sizes that the first version of the interface published: no caller has smaller structs.
constexpr std::size_t first_size(const fa2_problem*) {
  return 64;
}
constexpr std::size_t first_size(const fa2_args*) {
  return 152;
}
constexpr std::size_t first_size(const fa2_context_options*) {
  return 40;
}

/// The caller's struct as this library knows it: fields it lacks are 0, fields beyond ours must be 0.
template <class Struct>
Struct read_struct(const Struct* from, const char* name) {
  constexpr std::size_t kSize = sizeof(Struct), kFirst = first_size(static_cast<const Struct*>(nullptr));
  static_assert(kSize >= kFirst && std::is_trivially_copyable_v<Struct>,
                "published fields are never removed");
  const std::size_t size = required(from, name).struct_size;
  if (size < kFirst) {
    refuse(name, fmt::format("a struct with struct_size {}", size),
           fmt::format("must have at least {}", kFirst));
  }
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(from);
  if (size > kSize &&
      std::any_of(bytes + kSize, bytes + size, [](unsigned char byte) { return byte != 0; })) {
    refuse(
        name, fmt::format("a struct with struct_size {}", size),
        fmt::format("must be 0 in the fields that fa2 {} does not know, from byte {} on", version(), kSize));
  }
  Struct copy{};
  std::memcpy(&copy, bytes, std::min(size, kSize));
  return copy;
}

/// Enumerations travel as int32 and would wrap around in a cast: those out of range are entered in `found`.
template <class Enum>
Enum enum_of(std::int32_t value, Enum last, const char* field, std::vector<Violation>& found) {
  if (value >= 0 && value <= static_cast<std::int32_t>(last)) return static_cast<Enum>(value);
  found.push_back({field, fmt::format("{}", value), fmt::format("must be in 0..{}", static_cast<int>(last))});
  return Enum{};
}

/// Where 0 means "not chosen" and the enumeration starts at 1.
template <class Enum>
std::optional<Enum> choice_of(std::int32_t value, Enum last, const char* field,
                              std::vector<Violation>& found) {
  if (value == 0) return std::nullopt;
  if (value > 0 && value <= static_cast<std::int32_t>(last) + 1) return static_cast<Enum>(value - 1);
  found.push_back(
      {field, fmt::format("{}", value), fmt::format("must be in 0..{}", static_cast<int>(last) + 1)});
  return std::nullopt;
}

AttentionProblem problem_of(const fa2_problem* pointer) {
  const fa2_problem from = read_struct(pointer, "problem");
  std::vector<Violation> found;
  AttentionProblem problem;
  problem.dtype = enum_of(from.dtype, DType::bf16, "dtype", found);
  problem.mask = enum_of(from.mask, MaskKind::causal_top_left, "mask", found);
  problem.row_alignment =
      enum_of(from.row_alignment, RowAlignment::bytes16_any_order, "row_alignment", found);
  problem.head_dim = from.head_dim;
  problem.head_dim_v = from.head_dim_v;
  problem.batch = from.batch;
  problem.heads_q = from.heads_q;
  problem.heads_kv = from.heads_kv;
  problem.seqlen_q = from.seqlen_q;
  problem.seqlen_k = from.seqlen_k;
  if (found.empty()) return problem;
  for (Violation& violation : violations_of(problem)) found.push_back(std::move(violation));
  throw InvalidProblem(std::move(found));
}

TensorStrides strides_of(const std::int64_t (&strides)[3]) {
  return {strides[0], strides[1], strides[2]};
}

AttentionArgs args_of(const fa2_args* pointer) {
  const fa2_args from = read_struct(pointer, "args");
  std::vector<Violation> found;
  AttentionArgs args;
  args.q = from.q;
  args.k = from.k;
  args.v = from.v;
  args.o = from.o;
  args.lse = from.lse;
  args.q_strides = strides_of(from.q_strides);
  args.k_strides = strides_of(from.k_strides);
  args.v_strides = strides_of(from.v_strides);
  args.o_strides = strides_of(from.o_strides);
  if (from.has_softmax_scale != 0) args.softmax_scale = from.softmax_scale;
  args.empty_row_lse = enum_of(from.empty_row_lse, EmptyRowLse::negative_infinity, "empty_row_lse", found);
  if (!found.empty()) throw InvalidProblem(std::move(found));
  return args;
}

std::vector<std::string> directories_of(std::string_view path) {
  std::vector<std::string> directories;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find(':'), path.size());
    if (end > 0) directories.emplace_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return directories;
}

ContextOptions options_of(const fa2_context_options* pointer) {
  ContextOptions options;
  if (pointer == nullptr) return options;
  const fa2_context_options from = read_struct(pointer, "options");
  std::vector<Violation> found;
  options.tune = choice_of(from.tune, TuneMode::search, "tune", found);
  options.jit = choice_of(from.jit, JitMode::off, "jit", found);
  if (!found.empty()) throw InvalidProblem(std::move(found));
  if (from.tune_budget_ms != 0) options.tune_budget_ms = from.tune_budget_ms;
  if (from.cache_dir != nullptr) options.cache_dir = from.cache_dir;
  if (from.read_only_caches != nullptr) options.read_only_caches = directories_of(from.read_only_caches);
  if (from.config != nullptr) options.config = parse_config(from.config);
  return options;
}

std::vector<AttentionProblem> problems_of(const fa2_problem* problems, std::size_t count) {
  std::vector<AttentionProblem> converted;
  if (count == 0) return converted;
  const std::size_t stride = required(problems, "problems").struct_size;
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(problems);
  for (std::size_t i = 0; i < count; ++i) {
    const fa2_problem* problem = reinterpret_cast<const fa2_problem*>(bytes + i * stride);
    if (problem->struct_size != stride) {
      refuse("problems", fmt::format("element {} with struct_size {}", i, problem->struct_size),
             fmt::format("must all have the first one's struct_size, {}", stride));
    }
    converted.push_back(problem_of(problem));
  }
  return converted;
}

std::vector<std::string> strings_of(const char* const* strings, std::size_t count, const char* name) {
  std::vector<std::string> converted;
  if (count != 0) required(strings, name);
  for (std::size_t i = 0; i < count; ++i) converted.emplace_back(&required(strings[i], name));
  return converted;
}

/// The caller's to free with fa2_string_free().
char* allocate_copy(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

Context& context_of(fa2_context* context) {
  return context != nullptr ? context->context : Context::default_context();
}

Stream stream_of(void* stream) {
  return static_cast<Stream>(stream);
}

void throw_failures(const std::vector<PrecompiledKernel>& kernels) {
  std::string failures;
  for (const PrecompiledKernel& kernel : kernels) {
    if (kernel.error.empty()) continue;
    failures += fmt::format("\n  {} for {}: {}", to_string(kernel.problem), kernel.arch, kernel.error);
  }
  if (!failures.empty()) throw CompileError("not every kernel could be precompiled:" + failures, "", "");
}

}  // namespace

const char* fa2_last_error(void) {
  return last_error.c_str();
}

const char* fa2_version(void) {
  return version();
}

void fa2_string_free(char* text) {
  std::free(text);
}

fa2_status fa2_context_create(const fa2_context_options* options, fa2_context** context) {
  return guarded([&] {
    required(context, "context") = nullptr;
    *context = new fa2_context{Context(options_of(options))};
  });
}

fa2_status fa2_context_destroy(fa2_context* context) {
  return guarded([&] { delete context; });
}

fa2_status fa2_attention(fa2_context* context, const fa2_problem* problem, const fa2_args* args,
                         void* stream) {
  return guarded(
      [&] { context_of(context).attention(problem_of(problem), args_of(args), stream_of(stream)); });
}

fa2_status fa2_plan_create(fa2_context* context, const fa2_problem* problem, int32_t device,
                           fa2_plan** plan) {
  return guarded([&] {
    required(plan, "plan") = nullptr;
    if (device < -1)
      refuse("device", fmt::format("{}", device), "must be a CUDA ordinal, or -1 for the current device");
    *plan = new fa2_plan{context_of(context).plan(problem_of(problem), device)};
  });
}

fa2_status fa2_plan_run(const fa2_plan* plan, const fa2_args* args, void* stream) {
  return guarded([&] { required(plan, "plan").plan.run(args_of(args), stream_of(stream)); });
}

fa2_status fa2_plan_explain(const fa2_plan* plan, char** json) {
  return guarded([&] {
    required(json, "json") = nullptr;
    *json = allocate_copy(to_json(required(plan, "plan").plan.explain()));
  });
}

fa2_status fa2_plan_destroy(fa2_plan* plan) {
  return guarded([&] { delete plan; });
}

fa2_status fa2_precompile(fa2_context* context, const fa2_problem* problems, size_t problem_count,
                          const char* const* archs, size_t arch_count, const char* out_dir, char** report) {
  return guarded([&] {
    if (report != nullptr) *report = nullptr;
    PrecompileOptions options;
    if (out_dir != nullptr) options.out = out_dir;
    const std::vector<PrecompiledKernel> kernels = context_of(context).precompile(
        problems_of(problems, problem_count), strings_of(archs, arch_count, "archs"), options);
    if (report != nullptr) *report = allocate_copy(to_json(kernels));
    throw_failures(kernels);
  });
}

fa2_status fa2_tune(fa2_context* context, const fa2_problem* problem, int32_t device, char** report) {
  return guarded([&] {
    if (report != nullptr) *report = nullptr;
    if (device < -1)
      refuse("device", fmt::format("{}", device), "must be a CUDA ordinal, or -1 for the current device");
    const TuneReport result = context_of(context).tune(problem_of(problem), device);
    if (report != nullptr) *report = allocate_copy(to_json(result));
  });
}
