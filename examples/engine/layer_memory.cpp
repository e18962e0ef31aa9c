// Allocates, and fills in pointers and strides.
#include "layer_memory.h"

#include "../model/bfloat16.h"
#include "../model/rotary.h"

namespace example {
namespace {

std::size_t bytes(std::int64_t count, std::size_t size = sizeof(Bfloat16)) {
  return static_cast<std::size_t>(count) * size;
}

}  // namespace

LayerMemory::LayerMemory(const ModelShape& shape, std::int64_t new_tokens, std::int64_t cache_tokens,
                         bool on_gpu)
    : qkv(bytes(new_tokens * shape.qkv_width()), on_gpu),
      o(bytes(new_tokens * shape.width()), on_gpu),
      k_cache(bytes(cache_tokens * shape.heads_kv * shape.head_dim), on_gpu),
      v_cache(k_cache.size(), on_gpu) {}

RotaryTables::RotaryTables(const ModelShape& shape, std::int64_t positions, bool on_gpu)
    : cosines(bytes(positions * shape.head_dim / 2, sizeof(float)), on_gpu), sines(cosines.size(), on_gpu) {
  Shape rotated;
  rotated.head_dim = shape.head_dim;
  rotated.context = positions;
  const Rotary<float> rotary(rotated);
  cosines.upload(rotary.cosines().values);
  sines.upload(rotary.sines().values);
}

LayerArguments arguments_of(const ModelShape& shape, const LayerMemory& memory, const RotaryTables& angles,
                            std::int64_t entry_tokens) {
  const fa2::TensorStrides of_qkv = {0, shape.head_dim, shape.qkv_width()};
  const fa2::TensorStrides of_cache = fa2::TensorStrides::bshd(entry_tokens, shape.heads_kv, shape.head_dim);
  const std::int64_t k = shape.width(), v = k + shape.heads_kv * shape.head_dim;

  fa2::AppendArgs append;
  append.q = append.q_out = memory.qkv.at<Bfloat16>(0);
  append.k_new = memory.qkv.at<Bfloat16>(k), append.v_new = memory.qkv.at<Bfloat16>(v);
  append.q_strides = append.q_out_strides = append.k_new_strides = append.v_new_strides = of_qkv;
  append.k_cache = memory.k_cache.at<Bfloat16>(0), append.v_cache = memory.v_cache.at<Bfloat16>(0);
  append.k_cache_strides = append.v_cache_strides = of_cache;
  append.cos = angles.cosines.at<float>(0), append.sin = angles.sines.at<float>(0);
  append.table_stride = shape.head_dim / 2;

  fa2::AttentionArgs attention;
  attention.q = append.q, attention.q_strides = of_qkv;
  attention.k = append.k_cache, attention.v = append.v_cache;
  attention.k_strides = attention.v_strides = of_cache;
  attention.out = memory.o.at<Bfloat16>(0), attention.out_strides = {0, shape.head_dim, shape.width()};
  attention.softcap = shape.softcap;
  return {append, attention};
}

}  // namespace example
