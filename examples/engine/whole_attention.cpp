// One append() and one attention per layer.
#include "whole_attention.h"

#include "../model/bfloat16.h"
#include "layer_memory.h"
#include "problems.h"

namespace example {

LayerRows attend_whole(fa2::Context& context, const ModelShape& shape, const LayerRows& qkv,
                       std::int64_t longest, bool on_gpu) {
  const std::int64_t tokens = qkv[0].rows;
  LayerMemory memory(shape, tokens, tokens, on_gpu);
  const RotaryTables angles(shape, longest, on_gpu);
  DeviceMemory length_before(sizeof(std::int32_t), on_gpu);
  length_before.upload(std::vector<std::int32_t>{0});
  LayerArguments arguments = arguments_of(shape, memory, angles, tokens);
  arguments.append.seqlens = length_before.at<std::int32_t>(0);

  LayerRows o;
  for (const Matrix<float>& layer : qkv) {
    upload(layer, memory.qkv);
    context.append(whole_append(shape, tokens, longest), arguments.append);
    context.attention(whole_attention(shape, tokens, static_cast<std::int64_t>(o.size())),
                      arguments.attention);
    o.push_back(downloaded(memory.o, tokens, shape.width()));
  }
  return o;
}

}  // namespace example
