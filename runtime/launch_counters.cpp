// The first words for launches in turn, the others for those that graphs hold.
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
  const OwnedStream stream;  // not the default one, which streams need not wait for
  words_.fill(0, stream.get());
  stream.synchronize();
}

std::uint32_t* LaunchCounters::take(Graph graph) {
  if (graph == nullptr) return words(next_.fetch_add(1, std::memory_order_relaxed) % sizes_.in_turn);
  const std::shared_ptr<std::uint32_t> word = lend();
  keep_with(graph, word);
  return word.get();
}

// A word comes back as 0, as it was lent: CUDA lets go of it when every launch that counts in it has ended, and a
// launch that has ended left 0. What comes back is its number alone, which is host memory: where CUDA lets go, nothing
// of CUDA may be called, and the device's memory may be gone.
std::shared_ptr<std::uint32_t> LaunchCounters::lend() {
  const std::optional<std::uint32_t> number = free_->take();
  if (!number) {
    throw Unavailable(fmt::format(
        "graphs hold {} launches of this context, as many as it has counters for: destroy graphs, or give "
        "launches an AttentionArgs::workspace",
        sizes_.for_graphs));
  }
  return {words(sizes_.in_turn + *number),
          [free = free_, number = *number](std::uint32_t*) { free->give_back(number); }};
}

MemoryRange LaunchCounters::memory() const {
  return {"launch counters", static_cast<const std::byte*>(words_.data()), words_.size(), Access::read_write};
}

}  // namespace fa2
