// A layer's memory on the device, and the arguments of its two calls.
#pragma once

#include <fa2/append.h>
#include <fa2/attention.h>

#include <cstdint>

#include "../model/device_memory.h"
#include "model_shapes.h"

namespace example {

/// Q, K and V of new tokens, their O, and the cache; bfloat16.
struct LayerMemory {
  LayerMemory(const ModelShape& shape, std::int64_t new_tokens, std::int64_t cache_tokens, bool on_gpu);

  DeviceMemory qkv;  ///< (new_tokens, qkv_width())
  DeviceMemory o;    ///< (new_tokens, width())
  DeviceMemory k_cache, v_cache;
};

/// Cosines and sines of the rotary angles of each position; float32. All layers share them.
struct RotaryTables {
  RotaryTables(const ModelShape& shape, std::int64_t positions, bool on_gpu);

  DeviceMemory cosines, sines;
};

struct LayerArguments {
  fa2::AppendArgs append;
  fa2::AttentionArgs attention;
};

/// Returns the arguments of a layer, without its sequences' tables. Q, K and V are slices of one tensor; append() rotates Q in
/// place. An entry of the cache, or a page, has `entry_tokens` tokens. The memory must outlive the arguments.
LayerArguments arguments_of(const ModelShape& shape, const LayerMemory& memory, const RotaryTables& angles,
                            std::int64_t entry_tokens);

}  // namespace example
