// What a key and its value are in memory: what append() writes and attention reads.
#pragma once

#include <core/element_type.h>

#include <cstdint>
#include <templates/attention/common/latent_row.cuh>

namespace fa2 {

/// A row of K and a row of V in memory. Operands, shared memory, tensor maps and estimates of what is read follow from it, so
/// another format widens this file. It does not say where rows lie: page_size does, whose value some kernels read.
struct KeyValueFormat {
  ElementType element = ElementType::f16;  ///< of K and V; Q and O have the problem's dtype
  std::int32_t head_dim = 0;               ///< columns of K
  std::int32_t head_dim_v = 0;             ///< columns of V
  bool values_in_keys = false;             ///< V is the first columns of K
  bool is_latent_row = false;              ///< K has rows of KvType::ds_mla

  /// Returns the elements of a row of K.
  constexpr std::int32_t key_elements() const { return is_latent_row ? LatentRow::bytes : head_dim; }

  /// Returns the bytes of a key and its value.
  constexpr std::int64_t bytes_per_key() const {
    return std::int64_t{bytes_of(element)} * (key_elements() + (values_in_keys ? 0 : head_dim_v));
  }
};

/// Returns the format of a problem, AttentionProblem or AppendProblem, which need not be normalized.
template <class Problem>
constexpr KeyValueFormat key_value_format(const Problem& p) {
  KeyValueFormat format{.element = element_of(p.kv_type, p.dtype),
                        .head_dim = p.head_dim,
                        .head_dim_v = p.head_dim_v == 0 ? p.head_dim : p.head_dim_v,
                        .is_latent_row = p.kv_type == KvType::ds_mla};
  if constexpr (requires { p.values_in_keys; }) format.values_in_keys = p.values_in_keys;
  return format;
}

/// Returns whether keys and values have 8 bits.
template <class Problem>
constexpr bool has_bytes(const Problem& p) {
  return key_value_format(p).element == ElementType::e4m3;
}

}  // namespace fa2
