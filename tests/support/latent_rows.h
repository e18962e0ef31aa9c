// Rows of KvType::ds_mla in memory.
#pragma once

#include "gpu_attention.h"

namespace fa2::test {

/// Uploads keys as rows of KvType::ds_mla, with NaN around them. `layout` counts bytes. A group of columns becomes NaN if one of
/// them is. `keys` becomes what the memory holds. The factors of groups differ.
void send_latents(reference::Tensor& keys, const Layout& layout, DeviceBuffer& buffer);

}  // namespace fa2::test
