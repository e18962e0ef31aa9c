// Fences between plain memory accesses and the async proxy, which TMA and wgmma use (sm_90).
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// fence.proxy.async for shared memory. A thread whose writes wgmma or TMA will read or overwrite must call
/// it, before the barrier that precedes their issue. Writes by TMA and wgmma themselves need no fence.
FA2_DEVICE void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Like fence_proxy_async_shared(), for every state space.
FA2_DEVICE void fence_proxy_async() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

}  // namespace fa2::ptx
