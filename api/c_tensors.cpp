// Implements fa2/c_tensors.h: the binding of each operation, with the fields that follow from no shape.
#include <api/c_guard.h>
#include <api/c_read_struct.h>
#include <api/c_structs.h>
#include <fa2/c_tensors.h>
#include <generator/kernel_kind.h>
#include <generator/key_value_format.h>
#include <operation/operands/bind.h>
#include <operation/operands/row_tables.h>
#include <operation/operands/tensor_tables.h>
#include <runtime/device.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace {

using namespace fa2;

/// Returns whether all fields can be filled in: the struct must be at least as large as this library's.
template <class Struct>
bool is_whole(const Struct* pointer, const char* name, Found& found) {
  if (pointer != nullptr && pointer->struct_size == sizeof(Struct)) return true;
  if (!is_given(pointer, name, found)) return false;
  if (!has_known_size<Struct>(pointer->struct_size, name, found)) return false;
  if (pointer->struct_size >= sizeof(Struct)) return true;
  found.push_back({name, fmt::format("a struct with struct_size {}", pointer->struct_size),
                   fmt::format("must have at least {}", sizeof(Struct))});
  return false;
}

/// Binds the tensors of one call. check(binding, has_problem) adds violations of rules that no row has; it may read the problem
/// only if has_problem. finish(binding) fills in fields that follow from no row. `more` is the second struct of arguments, `name`
/// the name of the first.
template <const TensorTable& kTable, class Problem, class Args, class Check, class Finish>
fa2_status bind_tensors(std::span<const fa2_array* const> tensors, Problem* problem, Args* args,
                        fa2_placement* place, const Check& check, const Finish& finish, void* more = nullptr,
                        const char* name = "args") {
  return guarded([&] {
    Binding binding(kTable, tensors);
    const bool has_problem = is_whole(problem, "problem", binding.found());
    is_whole(args, name, binding.found());
    check(binding, has_problem);
    require_none(binding.found());
    binding.fill<kTable>(problem, args, more);
    finish(binding);
    if (place != nullptr) *place = binding.placement();
  });
}

std::span<const fa2_array* const> span_of(const fa2_array* const* tensors, size_t count) {
  return {tensors, tensors != nullptr ? count : 0};
}

/// Rejects GPU tensors if the current device is the interpreter. For operations without a plan, which run on the current device.
void check_current_device(Binding& binding, bool) {
  const std::int32_t device = binding.placement().device;
  if (device >= 0 && interpreting())
    binding.found().push_back(
        {"device", fmt::format("cuda:{}", device),
         "must be the CPU, for the interpreter is the current device: unset FA2_DEVICE"});
}

// ---- attention ----

/// The longest sequence: given by the caller if sequences are packed, else bounded by the page table.
class Longest {
 public:
  explicit Longest(fa2_problem* problem) : problem_(problem) {}

  void check(Binding& binding, bool has_problem) {
    if (has_problem) q_ = problem_->seqlen_q, k_ = problem_->seqlen_k;
    check(binding, FA2_CU_SEQLENS_Q, q_, "max_seqlen_q");
    check(binding, FA2_CU_SEQLENS_K, k_, "max_seqlen_k");
  }

  /// Sets seqlen_q and seqlen_k. If packed sequences have no row at all, both stay 0.
  void fill(const Binding& binding) const {
    fa2_problem& p = *problem_;
    if (p.total_q > 0) p.seqlen_q = q_;
    if (p.total_k > 0) p.seqlen_k = k_;
    if (binding.is_given(FA2_PAGE_TABLE))
      p.seqlen_k = longest_in_pages(binding.tensor(FA2_PAGE_TABLE).shape[1]);
    remove_idle_bounds(p);
  }

 private:
  /// Removes windows and chunks that hide nothing, because every kernel with one is another kernel. Pieces of queries may stand further
  /// from a key than the longest sequence.
  static void remove_idle_bounds(fa2_problem& p) {
    if (p.query_pieces) return;
    const std::int64_t longest = std::max(p.seqlen_q, p.seqlen_k);
    if (p.window_left >= longest) p.has_window_left = 0, p.window_left = 0;
    if (p.window_right >= longest) p.has_window_right = 0, p.window_right = 0;
    // Without a mask, a chunk also hides all keys from queries that come before the first key.
    if (p.attention_chunk >= longest && p.mask != FA2_MASK_NONE)
      p.has_attention_chunk = 0, p.attention_chunk = 0;
  }

  static void check(Binding& binding, std::size_t table, std::int64_t length, const char* name) {
    if (!binding.is_given(table) || length >= 0) return;
    binding.found().push_back(
        {name, length == -1 ? "none" : fmt::format("{}", length),
         fmt::format("must be given with {}: the longest sequence", kAttentionTable.tensors[table].name())});
  }

  /// Returns the keys that a row of the page table has room for, at most k_ if that is given.
  std::int64_t longest_in_pages(std::int64_t pages) const {
    std::int64_t capacity = 0;
    if (__builtin_mul_overflow(pages, std::int64_t{problem_->page_size}, &capacity)) capacity = INT64_MAX;
    return k_ > 0 ? std::min(k_, capacity) : capacity;
  }

  fa2_problem* problem_;
  std::int64_t q_ = 0, k_ = 0;
};

/// Returns whether V is the first columns of K, where kernels that read both would read them twice.
bool has_values_in_keys(const Binding& binding, const fa2_problem& problem) {
  const fa2_array &k = binding.tensor(FA2_K), &v = binding.tensor(FA2_V);
  bool is_same = k.data == v.data && !kernels::forward_sm80.head_dims.contain(problem.head_dim) &&
                 problem.head_dim_v <= problem.head_dim;
  for (int i = 0; i < k.ndim; ++i) is_same &= k.shape[i] <= 1 || k.strides[i] == v.strides[i];
  return is_same;
}

/// The tensors of a call. Keys of KvType::ds_mla appear with as many columns as another tensor has.
class LatentKeys {
 public:
  /// `keys`, `like`: the places of keys and of the other tensor, which has `columns` columns if keys have that type.
  LatentKeys(std::span<const fa2_array* const> tensors, std::size_t keys, std::size_t like,
             std::int64_t columns)
      : tensors_(tensors) {
    if (tensors.size() <= std::max(keys, like) || tensors.size() > all_.size()) return;
    if (tensors[keys] == nullptr || tensors[like] == nullptr) return;
    keys_ = *tensors[keys];
    if (keys_.dtype != FA2_FLOAT8_E4M3FN || columns_of(keys_) != LatentRow::bytes ||
        columns_of(*tensors[like]) != columns)
      return;
    are_found_ = true;
    keys_.shape[keys_.ndim - 1] = columns;
    std::ranges::copy(tensors, all_.begin());
    all_[keys] = &keys_;
    tensors_ = std::span(all_).first(tensors.size());
  }
  LatentKeys(const LatentKeys&) = delete;
  LatentKeys& operator=(const LatentKeys&) = delete;

  bool are_found() const { return are_found_; }
  std::span<const fa2_array* const> tensors() const { return tensors_; }

 private:
  static std::int64_t columns_of(const fa2_array& tensor) {
    return tensor.ndim > 0 && tensor.ndim <= FA2_MOST_DIMENSIONS ? tensor.shape[tensor.ndim - 1] : 0;
  }

  bool are_found_ = false;
  fa2_array keys_{};
  std::array<const fa2_array*, kMostTensors> all_{};
  std::span<const fa2_array* const> tensors_;
};

}  // namespace

fa2_status fa2_bind_attention(const fa2_array* const* tensors, size_t count, fa2_problem* problem,
                              fa2_args* args, fa2_placement* place) {
  Longest longest(problem);
  const LatentKeys keys(span_of(tensors, count), FA2_K, FA2_Q, LatentRow::cols);
  return bind_tensors<kAttentionTable>(
      keys.tensors(), problem, args, place,
      [&](Binding& binding, bool has_problem) { longest.check(binding, has_problem); },
      [&](const Binding& binding) {
        longest.fill(binding);
        if (keys.are_found()) problem->kv_type = FA2_KV_DS_MLA;
        problem->values_in_keys = has_values_in_keys(binding, *problem);
      });
}

fa2_status fa2_bind_backward(const fa2_array* const* tensors, size_t count, fa2_problem* problem,
                             fa2_args* forward, fa2_backward_args* args, fa2_placement* place) {
  Longest longest(problem);
  return bind_tensors<kBackwardTable>(
      span_of(tensors, count), problem, forward, place,
      [&](Binding& binding, bool has_problem) {
        is_whole(args, "args", binding.found());
        longest.check(binding, has_problem);
      },
      [&](const Binding& binding) {
        longest.fill(binding);
        args->forward = forward;
      },
      args, "forward");
}

fa2_status fa2_bind_append(const fa2_array* const* tensors, size_t count, fa2_append_problem* problem,
                           fa2_append_args* args, fa2_placement* place) {
  const LatentKeys keys(span_of(tensors, count), FA2_APPEND_K_CACHE, FA2_APPEND_K, LatentRow::rotated_cols);
  return bind_tensors<kAppendTable>(keys.tensors(), problem, args, place, check_current_device,
                                    [&](const Binding&) {
                                      if (keys.are_found()) problem->kv_type = FA2_KV_DS_MLA;
                                    });
}

fa2_status fa2_bind_merge(const fa2_array* const* tensors, size_t count, fa2_merge_problem* problem,
                          fa2_merge_args* args, fa2_placement* place) {
  return bind_tensors<kMergeTable>(span_of(tensors, count), problem, args, place, check_current_device,
                                   [&](const Binding& binding) {
                                     const bool is_packed = binding.tensor(FA2_MERGE_OUT).ndim == 3;
                                     if (is_packed) problem->batch = 1;
                                   });
}

fa2_status fa2_bind_dropout_mask(const fa2_array* const* tensors, size_t count, fa2_problem* problem,
                                 fa2_args* args, fa2_placement* place) {
  return bind_tensors<kDropoutMaskTable>(span_of(tensors, count), problem, args, place, check_current_device,
                                         [&](const Binding&) {
                                           problem->head_dim = problem->head_dim_v = 8;
                                           problem->dropout = 1;
                                         });
}
