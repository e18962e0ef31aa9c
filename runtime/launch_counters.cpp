// The first words for launches in turn, the others for captured ones.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/launch_counters.h>

namespace fa2 {
namespace {

constexpr std::uint32_t kInTurn = 1 << 14, kCaptured = 1 << 18;

}  // namespace

LaunchCounters::LaunchCounters() : words_((kInTurn + kCaptured) * sizeof(std::uint32_t)) {
  words_.fill(0);
}

std::uint32_t* LaunchCounters::take(bool captured) {
  auto* const words = static_cast<std::uint32_t*>(words_.data());
  if (!captured) return words + next_.fetch_add(1, std::memory_order_relaxed) % kInTurn;
  const std::uint32_t index = captured_.fetch_add(1, std::memory_order_relaxed);
  if (index < kCaptured) return words + kInTurn + index;
  captured_.store(kCaptured, std::memory_order_relaxed);
  throw Unavailable(
      fmt::format("{} launches were captured in graphs by this context, as many as it has counters for: make "
                  "another fa2::Context for more",
                  kCaptured));
}

MemoryRange LaunchCounters::memory() const {
  return {"launch counters", static_cast<const std::byte*>(words_.data()), words_.size(), Access::read_write};
}

}  // namespace fa2
