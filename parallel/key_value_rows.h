// Rows of keys and values that ranks exchange.
#pragma once

#include <fa2/args.h>
#include <fa2/problem.h>

#include <cstddef>
#include <cstdint>

namespace fa2 {

/// K and V, or their gradients, in memory of (entries, rows): a row has K of all heads, then V.
struct KeyValueRows {
  std::byte *k, *v;
  TensorStrides k_strides, v_strides;
};

/// Returns the elements of a row.
inline std::int64_t key_value_elements(const AttentionProblem& p) {
  return p.heads_kv * (p.head_dim + p.head_dim_v);
}

/// Returns the tensors in `data`, which has `rows` rows per entry.
inline KeyValueRows key_value_rows(const AttentionProblem& p, std::int64_t rows, std::byte* data,
                                   std::int64_t element_bytes) {
  const std::int64_t row = key_value_elements(p), entry = rows * row;
  return {data,
          data + p.heads_kv * p.head_dim * element_bytes,
          {entry, p.head_dim, row},
          {entry, p.head_dim_v, row}};
}

}  // namespace fa2
