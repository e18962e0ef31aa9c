// Lists the models.
#include "model_shapes.h"

#include <fa2/errors.h>

#include <algorithm>

namespace example {
namespace {

const std::vector<ModelShape>& models() {
  static const std::vector<ModelShape> all = {
      {.name = "llama-3-8b", .layers = 4, .heads_q = 32, .heads_kv = 8, .head_dim = 128},
      {.name = "gemma-2-9b",
       .layers = 4,
       .heads_q = 16,
       .heads_kv = 8,
       .head_dim = 256,
       .softcap = 50,
       .window = 4096}};
  return all;
}

}  // namespace

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const ModelShape& model : models()) result.push_back(model.name);
    return result;
  }();
  return names;
}

ModelShape model_shape(const std::string& name) {
  const auto model =
      std::ranges::find_if(models(), [&](const ModelShape& candidate) { return candidate.name == name; });
  if (model == models().end())
    throw fa2::InvalidRequest({{"model", name, "must be one of those that --help lists"}});
  return *model;
}

ModelShape tiny(ModelShape shape) {
  shape.layers = 2;
  shape.heads_q = 4;
  shape.heads_kv = 2;
  shape.head_dim = 16;
  shape.window = shape.window > 0 ? 12 : 0;
  return shape;
}

}  // namespace example
