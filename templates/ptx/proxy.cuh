// Fences between plain accesses to memory and those of the asynchronous proxy: TMA and wgmma (sm_90).
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// fence.proxy.async for shared memory. A thread that wrote what wgmma or TMA will read or overwrite comes
/// here before the barrier that orders it before the one that issues them. What they wrote needs none.
FA2_DEVICE void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// The same for every state space.
FA2_DEVICE void fence_proxy_async() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

}  // namespace fa2::ptx
