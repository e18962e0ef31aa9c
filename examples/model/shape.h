// The sizes of a model and its batches.
#pragma once

#include <cstdint>

namespace example {

struct Shape {
  std::int64_t layers = 4;
  std::int64_t heads_q = 4;
  std::int64_t heads_kv = 2;  ///< divides heads_q: grouped-query attention
  std::int64_t head_dim = 32;
  std::int64_t hidden = 384;   ///< width of the feed-forward layers
  std::int64_t context = 128;  ///< tokens per sequence
  std::int64_t batch = 8;      ///< sequences

  std::int64_t width() const { return heads_q * head_dim; }
  /// Returns the columns of QKV: query heads, then key heads, then value heads.
  std::int64_t qkv_width() const { return (heads_q + 2 * heads_kv) * head_dim; }
  std::int64_t tokens() const { return batch * context; }
};

}  // namespace example
