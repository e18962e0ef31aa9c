// Work that is spread over the cores of the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace fa2::reference {

/// Runs `worker` on every core; each takes indices below `count` from the shared counter until there are none left.
void on_all_cores(std::int64_t count, const std::function<void(std::atomic<std::int64_t>& next)>& worker);

}  // namespace fa2::reference
