// Attention of one sequence as a whole, without pages, chunks and a batch.
#pragma once

#include <fa2/attention.h>

#include "model_shapes.h"
#include "packed_step.h"

namespace example {

/// Returns the attention's output in each layer, given QKV of all tokens of a sequence. Stores K and V in contiguous caches of that
/// length, by one append(), and attends over them in one call. `longest` bounds the number of tokens.
LayerRows attend_whole(fa2::Context& context, const ModelShape& shape, const LayerRows& qkv,
                       std::int64_t longest, bool on_gpu);

}  // namespace example
