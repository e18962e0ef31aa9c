// The first words are for launches in rotation, the rest for launches that graphs hold.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/launch_counters.h>

#include <cstddef>
#include <optional>

namespace fa2 {

LaunchCounters::LaunchCounters(const CounterSizes& sizes)
    : sizes_(sizes),
      words_((std::size_t{sizes.in_turn} + sizes.for_graphs) * sizes.words * sizeof(std::uint32_t)),
      free_(std::make_shared<FreeList>(sizes.for_graphs)) {
  const OwnedStream stream;  // not the default stream, for which other streams need not wait
  words_.fill(0, stream.get());
  stream.synchronize();
}

std::uint32_t* LaunchCounters::take(const Capture& capture, Stream stream) {
  if (capture.graph == nullptr) return words(next_.fetch_add(1, std::memory_order_relaxed) % sizes_.in_turn);
  const std::lock_guard lock(mutex_);
  std::weak_ptr<std::uint32_t>& kept = captured_[{capture.number, stream}];
  if (const std::shared_ptr<std::uint32_t> shared = kept.lock()) return shared.get();
  const std::shared_ptr<std::uint32_t> lent = lend();
  keep_with(capture.graph, lent);
  kept = lent;
  std::erase_if(captured_, [](const auto& item) { return item.second.expired(); });
  return lent.get();
}

// A word is returned as 0, because CUDA releases it only after every launch that uses it, and each launch
// leaves 0. Only its number is returned, which is host memory: the release must not call CUDA, and device
// memory may be gone.
std::shared_ptr<std::uint32_t> LaunchCounters::lend() {
  const std::optional<std::uint32_t> number = free_->take();
  if (!number) {
    throw Unavailable(
        fmt::format("CUDA graphs hold all {} launch counters of this Context: destroy graphs, or pass "
                    "AttentionArgs::workspace",
                    sizes_.for_graphs));
  }
  return {words(sizes_.in_turn + *number),
          [free = free_, number = *number](std::uint32_t*) { free->give_back(number); }};
}

MemoryRange LaunchCounters::memory() const {
  return {"launch counters", static_cast<const std::byte*>(words_.data()), words_.size(), Access::read_write};
}

}  // namespace fa2
