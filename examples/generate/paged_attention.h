// The model's attention, computed by fa2 over paged keys and values.
#pragma once

#include <fa2/append.h>
#include <fa2/attention.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../model/attention.h"
#include "../model/device_memory.h"
#include "../model/page_pool.h"

namespace example {

struct CacheSizes {
  std::int64_t sequences = 1;
  std::int64_t longest = 0;      ///< largest number of tokens of a sequence
  std::int64_t step_tokens = 0;  ///< most new tokens of a step, over all sequences
  std::int64_t page_size = 16;   ///< tokens per page
  std::int64_t pages = 0;        ///< pages of each layer's cache
};

/// What all layers share in a step: the lengths of sequences, their pages, and the two calls of fa2. A page has the same number in
/// every layer's cache.
class PagedBatch {
 public:
  PagedBatch(const Shape& shape, const CacheSizes& sizes, std::uint64_t seed);

  /// Takes pages for new_tokens[b] new tokens of each sequence b, and copies the tables to the device. Must be called before the
  /// model runs over these tokens, packed one sequence after the other. Prompts and single tokens take the same path.
  void begin_step(const std::vector<std::int64_t>& new_tokens);

  /// Appends a layer's K and V to its pages, and returns O.
  Matrix<float> attend(const Matrix<float>& qkv, const DeviceMemory& k_pages, const DeviceMemory& v_pages);

  /// Returns the size of one layer's K or V cache in bytes.
  std::size_t cache_bytes() const;
  bool on_gpu() const { return on_gpu_; }
  const fa2::Explanation& explain() const { return decode_plan_.explain(); }

 private:
  void fill_in_arguments();
  void grow(std::size_t sequence, std::int64_t new_tokens);
  std::vector<std::int32_t> page_table() const;

  Shape shape_;
  CacheSizes sizes_;
  fa2::AttentionPlan decode_plan_;  ///< for one new token per sequence; made once for all layers and steps
  fa2::AttentionPlan plan_;         ///< for this step
  bool on_gpu_;

  PagePool pool_;
  std::vector<std::vector<std::int32_t>> pages_;  ///< pages of each sequence, in the order of its tokens
  std::vector<std::int32_t> lengths_;             ///< tokens of each sequence, including this step's

  fa2::AppendProblem append_problem_;
  DeviceMemory qkv_, o_;
  DeviceMemory lengths_before_, lengths_after_, cu_seqlens_, page_table_;  ///< int32
  DeviceMemory cosines_, sines_;                                           ///< float32
  fa2::AppendArgs append_;
  fa2::AttentionArgs attention_;
};

/// A layer's attention, which owns the layer's paged keys and values.
class PagedAttention final : public Attention<float> {
 public:
  explicit PagedAttention(PagedBatch& batch);

  /// Runs the layer's part of the step that begin_step() began.
  Matrix<float> forward(Matrix<float> qkv) override { return batch_.attend(qkv, k_pages_, v_pages_); }
  Matrix<float> backward(const Matrix<float>& d_out) override;

 private:
  PagedBatch& batch_;
  DeviceMemory k_pages_, v_pages_;
};

}  // namespace example
