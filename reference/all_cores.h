// Parallel work on all cores of the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace fa2::reference {

/// Runs `worker` on every core. Each takes indices below `count` from the shared counter until none are left.
void on_all_cores(std::int64_t count, const std::function<void(std::atomic<std::int64_t>& next)>& worker);

}  // namespace fa2::reference
