// fa2/c_tensors.h: what no shape says by itself.
#include <api/c_fields.h>
#include <api/c_guard.h>
#include <api/c_rows.h>
#include <api/c_structs.h>
#include <fa2/c_tensors.h>
#include <operation/operands/bind.h>
#include <runtime/device.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace {

using namespace fa2;

/// Whether fields can be filled in: the struct is at least this library's.
template <class Struct>
bool is_whole(const Struct* pointer, const char* name, Found& found) {
  if (pointer != nullptr && pointer->struct_size == sizeof(Struct)) return true;
  if (!is_given(pointer, name, found)) return false;
  if (!has_sound_size<Struct>(pointer->struct_size, name, found)) return false;
  if (pointer->struct_size >= sizeof(Struct)) return true;
  found.push_back({name, fmt::format("a struct with struct_size {}", pointer->struct_size),
                   fmt::format("must have at least {}", sizeof(Struct))});
  return false;
}

Binding binding_of(const TensorTable& table, const fa2_array* const* tensors, size_t count) {
  if (tensors == nullptr) count = 0;
  return Binding(table, std::span(tensors, count));
}

void set(fa2_placement* place, const Binding& binding) {
  if (place != nullptr) *place = binding.placement();
}

/// append() and their like run on the current device: an interpreted kernel cannot read a GPU's memory.
void check_current_device(Binding& binding) {
  const std::int32_t device = binding.placement().device;
  if (device >= 0 && interpreting())
    binding.found().push_back(
        {"device", fmt::format("cuda:{}", device),
         "must be the CPU, for the interpreter is the current device: unset FA2_DEVICE"});
}

// ---- attention ----

struct Longest {
  std::int64_t q, k;
};

Longest longest_of(const fa2_problem* problem) {
  return problem != nullptr ? Longest{problem->seqlen_q, problem->seqlen_k} : Longest{0, 0};
}

void check_longest(Binding& binding, const Longest& longest) {
  const auto check = [&](std::size_t table, std::int64_t length, const char* name, const char* packed) {
    if (binding.is_given(table) && length < 0)
      binding.found().push_back({name, length == -1 ? "none" : fmt::format("{}", length),
                                 fmt::format("must be given with {}: the longest sequence", packed)});
  };
  check(FA2_CU_SEQLENS_Q, longest.q, "max_seqlen_q", "cu_seqlens_q");
  check(FA2_CU_SEQLENS_K, longest.k, "max_seqlen_k", "cu_seqlens_k");
}

/// Keys of the longest sequence that a page table can hold.
std::int64_t longest_in_pages(const Binding& binding, std::int64_t longest) {
  std::int64_t capacity = 0;
  if (__builtin_mul_overflow(binding.size(attention_tensors::kMaxPages),
                             binding.size(attention_tensors::kPageSize), &capacity))
    capacity = INT64_MAX;
  return longest > 0 ? std::min(longest, capacity) : capacity;
}

void fill_attention(const Binding& binding, const Longest& longest, fa2_problem& p, fa2_args& args,
                    fa2_backward_args* backward) {
  binding.fill(&p, &args, backward);
  const auto has = [&](std::size_t row) { return binding.is_given(row); };
  p.dtype = binding.dtype();
  p.varlen = has(FA2_CU_SEQLENS_Q) || has(FA2_CU_SEQLENS_K) || has(FA2_SEQUSED_Q) || has(FA2_SEQUSED_K) ||
             has(FA2_PAGE_TABLE);
  p.alibi = has(FA2_ALIBI_SLOPES);
  p.sinks = has(FA2_SINKS);
  args.alibi_slopes_per_batch = p.alibi != 0 && binding.tensor(FA2_ALIBI_SLOPES).ndim == 2;
  // A total of 0 would say that sequences are not packed: no row at all is a longest sequence of 0.
  if (p.total_q > 0) p.seqlen_q = longest.q;
  if (p.total_k > 0) p.seqlen_k = longest.k;
  if (p.total_q == 0) args.cu_seqlens_q = nullptr;
  if (p.total_k == 0) args.cu_seqlens_k = nullptr;
  if (has(FA2_PAGE_TABLE)) p.seqlen_k = longest_in_pages(binding, longest.k);
}

}  // namespace

fa2_status fa2_bind_attention(const fa2_array* const* tensors, size_t count, fa2_problem* problem,
                              fa2_args* args, fa2_placement* place) {
  return guarded([&] {
    Binding binding = binding_of(kAttentionTable, tensors, count);
    is_whole(args, "args", binding.found());
    const Longest longest = longest_of(is_whole(problem, "problem", binding.found()) ? problem : nullptr);
    check_longest(binding, longest);
    require_none(binding.found());
    fill_attention(binding, longest, *problem, *args, nullptr);
    set(place, binding);
  });
}

fa2_status fa2_bind_backward(const fa2_array* const* tensors, size_t count, fa2_problem* problem,
                             fa2_args* forward, fa2_backward_args* args, fa2_placement* place) {
  return guarded([&] {
    Binding binding = binding_of(kBackwardTable, tensors, count);
    is_whole(forward, "forward", binding.found());
    is_whole(args, "args", binding.found());
    const Longest longest = longest_of(is_whole(problem, "problem", binding.found()) ? problem : nullptr);
    check_longest(binding, longest);
    require_none(binding.found());
    fill_attention(binding, longest, *problem, *forward, args);
    args->forward = forward;
    set(place, binding);
  });
}

fa2_status fa2_bind_append(const fa2_array* const* tensors, size_t count, fa2_append_problem* problem,
                           fa2_append_args* args, fa2_placement* place) {
  return guarded([&] {
    Binding binding = binding_of(kAppendTable, tensors, count);
    is_whole(problem, "problem", binding.found());
    is_whole(args, "args", binding.found());
    check_current_device(binding);
    require_none(binding.found());
    binding.fill(problem, args);
    problem->dtype = binding.dtype();
    problem->float32_tables =
        binding.is_given(FA2_APPEND_COS) && binding.tensor(FA2_APPEND_COS).dtype == FA2_FLOAT32;
    set(place, binding);
  });
}

fa2_status fa2_bind_combine(const fa2_array* const* tensors, size_t count, fa2_combine_problem* problem,
                            fa2_combine_args* args, fa2_placement* place) {
  return guarded([&] {
    Binding binding = binding_of(kCombineTable, tensors, count);
    is_whole(problem, "problem", binding.found());
    is_whole(args, "args", binding.found());
    check_current_device(binding);
    require_none(binding.found());
    binding.fill(problem, args);
    problem->dtype = binding.dtype();
    problem->float32_parts = binding.tensor(FA2_COMBINE_PARTS).dtype == FA2_FLOAT32;
    problem->float32_output = binding.tensor(FA2_COMBINE_OUT).dtype == FA2_FLOAT32;
    if (!binding.is_known(combine_tensors::kCombineBatch)) problem->batch = 1;
    set(place, binding);
  });
}

fa2_status fa2_bind_dropout_mask(const fa2_array* const* tensors, size_t count, fa2_problem* problem,
                                 fa2_args* args, fa2_placement* place) {
  return guarded([&] {
    Binding binding = binding_of(kDropoutMaskTable, tensors, count);
    is_whole(problem, "problem", binding.found());
    is_whole(args, "args", binding.found());
    check_current_device(binding);
    require_none(binding.found());
    binding.fill(problem, args);
    problem->head_dim = problem->head_dim_v = 8;
    problem->dropout = 1;
    set(place, binding);
  });
}
