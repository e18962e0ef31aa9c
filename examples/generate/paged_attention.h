// The model's attention by fa2, over keys and values in pages.
#pragma once

#include <fa2/append.h>
#include <fa2/attention.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../model/attention.h"
#include "../model/device_memory.h"
#include "page_pool.h"

namespace example {

struct CacheSizes {
  std::int64_t sequences = 1;
  std::int64_t longest = 0;      ///< tokens that a sequence grows to
  std::int64_t step_tokens = 0;  ///< that a step adds at most, of all sequences together
  std::int64_t page_size = 16;   ///< tokens of a page
  std::int64_t pages = 0;        ///< of each layer's cache, for all sequences
};

/// What a step of all layers shares: how long the sequences are, which pages they have, and the two calls of fa2. A page is the same
/// number in every layer's cache.
class PagedBatch {
 public:
  PagedBatch(const Shape& shape, const CacheSizes& sizes, std::uint64_t seed);

  /// Before the model is asked about the next new_tokens[b] tokens of each sequence b, packed one sequence after the other: takes
  /// the pages that they will fill, and tells the device. A prompt is a step as a single token is.
  void begin_step(const std::vector<std::int64_t>& new_tokens);

  /// A layer's part of the step.
  Matrix<float> attend(const Matrix<float>& qkv, const DeviceMemory& k_pages, const DeviceMemory& v_pages);

  /// Of K or V of a layer.
  std::size_t cache_bytes() const;
  bool on_gpu() const { return on_gpu_; }
  const fa2::Explanation& explain() const { return decode_plan_.explain(); }

 private:
  void fill_in_arguments();
  void grow(std::size_t sequence, std::int64_t new_tokens);
  std::vector<std::int32_t> page_table() const;

  Shape shape_;
  CacheSizes sizes_;
  fa2::AttentionPlan decode_plan_;  ///< of one new token a sequence: made once, for all layers and steps
  fa2::AttentionPlan plan_;         ///< of this step
  bool on_gpu_;

  PagePool pool_;
  std::vector<std::vector<std::int32_t>> pages_;  ///< of each sequence, in the order of its tokens
  std::vector<std::int32_t> lengths_;             ///< of each sequence, the step's tokens included

  fa2::AppendProblem append_problem_;
  DeviceMemory qkv_, o_;
  DeviceMemory lengths_before_, lengths_after_, cu_seqlens_, page_table_;  ///< int32
  DeviceMemory cosines_, sines_;                                           ///< float32
  fa2::AppendArgs append_;
  fa2::AttentionArgs attention_;
};

/// A layer's attention: its keys and values.
class PagedAttention final : public Attention<float> {
 public:
  explicit PagedAttention(PagedBatch& batch);

  /// Of the step that the batch has begun.
  Matrix<float> forward(Matrix<float> qkv) override { return batch_.attend(qkv, k_pages_, v_pages_); }
  Matrix<float> backward(const Matrix<float>& d_o) override;

 private:
  PagedBatch& batch_;
  DeviceMemory k_pages_, v_pages_;
};

}  // namespace example
