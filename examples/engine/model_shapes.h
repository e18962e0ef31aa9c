// The attention of the models that the engine can serve.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace example {

struct ModelShape {
  std::string name;
  std::int64_t layers = 1;
  std::int64_t heads_q = 1;
  std::int64_t heads_kv = 1;  ///< divides heads_q
  std::int64_t head_dim = 128;
  float softcap = 0;  ///< cap of scores; in units of scaled scores; 0: none
  std::int64_t window =
      0;  ///< keys that a query of a layer with a window sees, its own included; 0: no layer has one

  /// Returns whether a layer has a sliding window. Such layers alternate with whole ones.
  bool has_window(std::int64_t layer) const { return window > 0 && layer % 2 == 0; }
  std::int64_t width() const { return heads_q * head_dim; }
  /// Returns the columns of QKV: query heads, then key heads, then value heads.
  std::int64_t qkv_width() const { return (heads_q + 2 * heads_kv) * head_dim; }
};

/// Returns the names that model_shape() knows.
const std::vector<std::string>& model_names();

/// Returns a model's shape, with few of its layers. @throws fa2::InvalidRequest for an unknown name.
ModelShape model_shape(const std::string& name);

/// Returns a model of the same kind that the interpreter serves in seconds.
ModelShape tiny(ModelShape shape);

}  // namespace example
