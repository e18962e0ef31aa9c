// Fences between plain memory accesses and the async proxy. Global memory is not tracked.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

FA2_DEVICE void fence_proxy_async_shared() {
  machine->fence_proxy_async(false);
}

FA2_DEVICE void fence_proxy_async() {
  machine->fence_proxy_async(true);
}

}  // namespace fa2::ptx
