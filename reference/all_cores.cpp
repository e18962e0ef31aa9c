// Starts one thread per core; the caller is one of them.
#include <reference/all_cores.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace fa2::reference {

void on_all_cores(std::int64_t count, const std::function<void(std::atomic<std::int64_t>& next)>& worker) {
  std::atomic<std::int64_t> next{0};
  const std::int64_t cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::int64_t i = 1; i < std::min(cores, count); ++i) threads.emplace_back(worker, std::ref(next));
  worker(next);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace fa2::reference
