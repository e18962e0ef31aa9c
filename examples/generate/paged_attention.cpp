// Pages, tables, append() and plans: all that generating needs from fa2.
#include "paged_attention.h"

#include <algorithm>
#include <stdexcept>

#include "../model/bfloat16.h"

namespace example {
namespace {

using Table = std::vector<std::int32_t>;

fa2::AppendProblem append_problem(const Shape& shape, const CacheSizes& sizes) {
  fa2::AppendProblem problem;
  problem.dtype = fa2::DType::bf16;
  problem.head_dim = problem.rotary_dim = static_cast<std::int32_t>(shape.head_dim);
  problem.rotary_style = fa2::RotaryStyle::halves;
  problem.float32_tables = true;
  problem.table_rows = shape.context;
  problem.batch = sizes.sequences;
  problem.heads_q = shape.heads_q;  // the same launch rotates queries
  problem.heads_kv = shape.heads_kv;
  problem.page_size = sizes.page_size;
  problem.cache_entries = sizes.pages;
  problem.max_pages = pages_for(sizes.longest, sizes.page_size);
  return problem;
}

/// Returns the problem of a step with `total` new tokens, at most `most` per sequence.
fa2::AttentionProblem attention_problem(const Shape& shape, const CacheSizes& sizes, std::int64_t total,
                                        std::int64_t most) {
  fa2::AttentionProblem problem;
  problem.dtype = fa2::DType::bf16;
  problem.mask = fa2::MaskKind::causal_bottom_right;  // the last query of a sequence sees all of its keys
  problem.head_dim = static_cast<std::int32_t>(shape.head_dim);
  problem.varlen = true;
  problem.page_size = static_cast<std::int32_t>(sizes.page_size);
  problem.page_count = sizes.pages;
  problem.batch = sizes.sequences;
  problem.heads_q = shape.heads_q;
  problem.heads_kv = shape.heads_kv;
  problem.seqlen_q = most;
  problem.total_q = total;
  problem.seqlen_k = sizes.longest;  // an upper bound; the device knows the lengths
  return problem;
}

template <class T>
std::size_t bytes(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(T);
}

}  // namespace

PagedBatch::PagedBatch(const Shape& shape, const CacheSizes& sizes, std::uint64_t seed)
    : shape_(shape),
      sizes_(sizes),
      decode_plan_(fa2::Context::default_context().plan(attention_problem(shape, sizes, sizes.sequences, 1))),
      plan_(decode_plan_),
      on_gpu_(decode_plan_.explain().arch != "interpreter"),
      pool_(sizes.pages, seed),
      pages_(static_cast<std::size_t>(sizes.sequences)),
      lengths_(pages_.size()),
      append_problem_(append_problem(shape, sizes)),
      qkv_(bytes<Bfloat16>(sizes.step_tokens * shape.qkv_width()), on_gpu_),
      o_(bytes<Bfloat16>(sizes.step_tokens * shape.width()), on_gpu_),
      lengths_before_(bytes<std::int32_t>(sizes.sequences), on_gpu_),
      lengths_after_(bytes<std::int32_t>(sizes.sequences), on_gpu_),
      cu_seqlens_(bytes<std::int32_t>(sizes.sequences + 1), on_gpu_),
      page_table_(bytes<std::int32_t>(sizes.sequences * append_problem_.max_pages), on_gpu_),
      cosines_(bytes<float>(shape.context * shape.head_dim / 2), on_gpu_),
      sines_(cosines_.size(), on_gpu_) {
  const Rotary<float> rotary(shape);
  cosines_.upload(rotary.cosines().values);
  sines_.upload(rotary.sines().values);
  fill_in_arguments();
}

void PagedBatch::fill_in_arguments() {
  // Q and the new K and V are slices of one tensor. Q is rotated in place.
  const fa2::TensorStrides of_qkv = {0, shape_.head_dim, shape_.qkv_width()};
  const fa2::TensorStrides of_pages =
      fa2::TensorStrides::bshd(sizes_.page_size, shape_.heads_kv, shape_.head_dim);
  const std::int64_t k = shape_.width(), v = k + shape_.heads_kv * shape_.head_dim;

  append_.q = append_.q_out = qkv_.at<Bfloat16>(0), append_.q_strides = append_.q_out_strides = of_qkv;
  append_.k_new = qkv_.at<Bfloat16>(k), append_.k_new_strides = of_qkv;
  append_.v_new = qkv_.at<Bfloat16>(v), append_.v_new_strides = of_qkv;
  append_.k_cache_strides = append_.v_cache_strides = of_pages;
  append_.seqlens = lengths_before_.at<std::int32_t>(0);
  append_.cu_seqlens_q = append_.cu_seqlens_new = cu_seqlens_.at<std::int32_t>(0);
  append_.page_table = page_table_.at<std::int32_t>(0);
  append_.page_table_stride = append_problem_.max_pages;
  append_.cos = cosines_.at<float>(0), append_.sin = sines_.at<float>(0);
  append_.table_stride = shape_.head_dim / 2;

  attention_.q = qkv_.at<Bfloat16>(0), attention_.q_strides = of_qkv;
  attention_.k_strides = attention_.v_strides = of_pages;
  attention_.out = o_.at<Bfloat16>(0), attention_.out_strides = {0, shape_.head_dim, shape_.width()};
  attention_.cu_seqlens_q = append_.cu_seqlens_q;
  attention_.seqused_k = lengths_after_.at<std::int32_t>(0);
  attention_.page_table = append_.page_table;
  attention_.page_table_stride = append_.page_table_stride;
}

void PagedBatch::begin_step(const std::vector<std::int64_t>& new_tokens) {
  lengths_before_.upload(lengths_);
  Table cu_seqlens = {0};
  for (std::size_t b = 0; b < lengths_.size(); ++b) {
    grow(b, new_tokens[b]);
    cu_seqlens.push_back(cu_seqlens.back() + static_cast<std::int32_t>(new_tokens[b]));
  }
  lengths_after_.upload(lengths_);
  cu_seqlens_.upload(cu_seqlens);
  page_table_.upload(page_table());

  const std::int64_t most = *std::max_element(new_tokens.begin(), new_tokens.end()),
                     total = cu_seqlens.back();
  append_problem_.total_q = append_problem_.total_new = total;
  plan_ = most == 1 ? decode_plan_
                    : fa2::Context::default_context().plan(attention_problem(shape_, sizes_, total, most));
}

void PagedBatch::grow(std::size_t sequence, std::int64_t new_tokens) {
  const std::int64_t length = lengths_[sequence] + new_tokens;
  if (length > sizes_.longest)
    throw std::length_error("sequence " + std::to_string(sequence) + " outgrows the cache's " +
                            std::to_string(sizes_.longest) + " tokens");
  Table& pages = pages_[sequence];
  while (static_cast<std::int64_t>(pages.size()) < pages_for(length, sizes_.page_size))
    pages.push_back(pool_.take());
  lengths_[sequence] = static_cast<std::int32_t>(length);
}

/// Returns the table, one row per sequence. fa2 does not read entries after a sequence's pages.
std::vector<std::int32_t> PagedBatch::page_table() const {
  Table table(pages_.size() * static_cast<std::size_t>(append_problem_.max_pages));
  auto row = table.begin();
  for (const Table& pages : pages_) {
    std::copy(pages.begin(), pages.end(), row);
    row += append_problem_.max_pages;
  }
  return table;
}

Matrix<float> PagedBatch::attend(const Matrix<float>& qkv, const DeviceMemory& k_pages,
                                 const DeviceMemory& v_pages) {
  upload(qkv, qkv_);
  append_.k_cache = k_pages.at<Bfloat16>(0), append_.v_cache = v_pages.at<Bfloat16>(0);
  attention_.k = append_.k_cache, attention_.v = append_.v_cache;
  fa2::append(append_problem_, append_);
  plan_.run(attention_);
  return downloaded(o_, qkv.rows, shape_.width());
}

std::size_t PagedBatch::cache_bytes() const {
  return bytes<Bfloat16>(sizes_.pages * sizes_.page_size * shape_.heads_kv * shape_.head_dim);
}

PagedAttention::PagedAttention(PagedBatch& batch)
    : batch_(batch),
      k_pages_(batch.cache_bytes(), batch.on_gpu()),
      v_pages_(batch.cache_bytes(), batch.on_gpu()) {}

Matrix<float> PagedAttention::backward(const Matrix<float>&) {
  throw std::logic_error("a cache of keys and values has no gradients");
}

}  // namespace example
