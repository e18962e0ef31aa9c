// A phase completes when no arrival and no byte is missing, as in the PTX ISA.
#include <fmt/format.h>
#include <interpreter/mbarriers.h>

#include <utility>

namespace fa2::interpreter {
namespace {

constexpr int kMostArrivals = (1 << 20) - 1;
constexpr int kMostBytes = (1 << 20) - 1;

}  // namespace

Mbarriers::Mbarriers(Clocks& clocks, SharedMemory& shared, bool checks, std::function<void(int thread)> wake)
    : clocks_(clocks), shared_(shared), checks_(checks), wake_(std::move(wake)) {}

std::string Mbarriers::init(int thread, std::uint32_t address, int arrivals) {
  if (list_.count(address) > 0)
    return fmt::format("mbarrier.init of {}, which is already an mbarrier", describe(address));
  if (arrivals < 1 || arrivals > kMostArrivals)
    return fmt::format("mbarrier.init: arrivals = {}, must be 1..{}", arrivals, kMostArrivals);
  if (auto broken = shared_.become_mbarrier(thread, address); !broken.empty()) return broken;
  Mbarrier& mbarrier = list_[address];
  mbarrier.initialised = clocks_.now(thread);
  mbarrier.arrivals = mbarrier.missing = arrivals;
  return {};
}

void Mbarriers::fence_init(int thread) {
  for (auto& [address, mbarrier] : list_) mbarrier.fenced |= mbarrier.initialised.who == thread;
}

std::string Mbarriers::find(int thread, std::uint32_t address, const char* what, Mbarrier*& found) {
  const auto at = list_.find(address);
  if (at == list_.end()) {
    return fmt::format("{} at shared address {}, {}", what, shared_.text_of(address),
                       address % 8 == 0 ? "where nothing has initialised an mbarrier" : "misaligned");
  }
  found = &at->second;
  if (checks_ && !clocks_.knows(thread, found->initialised)) {
    return fmt::format(
        "race: {} on the mbarrier at {} by {}, and its init by {} with no barrier between them", what,
        shared_.text_of(address), clocks_.name(thread), clocks_.name(found->initialised.who));
  }
  return {};
}

std::string Mbarriers::arrive(int thread, std::uint32_t address, int bytes) {
  Mbarrier* mbarrier = nullptr;
  if (auto broken = find(thread, address, "mbarrier.arrive", mbarrier); !broken.empty()) return broken;
  if (mbarrier->missing == 0) return one_too_many(address);
  if (bytes < 0 || bytes > kMostBytes || mbarrier->bytes + bytes > kMostBytes)
    return fmt::format("expect_tx of {} bytes on {}, must be at most {}", bytes, describe(address),
                       kMostBytes);
  mbarrier->bytes += bytes;
  --mbarrier->missing;
  const bool is_own = clocks_.block_of(thread) == clocks_.block_of(mbarrier->initialised.who);
  clocks_.arrive(thread, is_own ? mbarrier->block.joining : mbarrier->others.joining);
  finish_phase(*mbarrier);
  return {};
}

std::string Mbarriers::expect_arrival(int thread, std::uint32_t address) {
  Mbarrier* mbarrier = nullptr;
  return find(thread, address, "cp.async.mbarrier.arrive", mbarrier);
}

std::string Mbarriers::arrive_at(Epoch issued, std::uint32_t address) {
  Mbarrier& mbarrier = list_.at(address);
  if (mbarrier.missing == 0) return one_too_many(address);
  --mbarrier.missing;
  const auto who = static_cast<std::size_t>(issued.who);
  Times& joining = mbarrier.block.joining;
  joining.resize(std::max(joining.size(), who + 1));
  joining[who] = std::max(joining[who], issued.clock);
  finish_phase(mbarrier);
  return {};
}

std::string Mbarriers::one_too_many(std::uint32_t address) const {
  return fmt::format("mbarrier.arrive on {}: one arrival too many, the phase takes {}", describe(address),
                     list_.at(address).arrivals);
}

std::string Mbarriers::wait(int thread, std::uint32_t address, unsigned parity, Scope scope, bool& waits) {
  Mbarrier* mbarrier = nullptr;
  if (auto broken = find(thread, address, "mbarrier.try_wait", mbarrier); !broken.empty()) return broken;
  if (parity > 1) return fmt::format("mbarrier.try_wait: parity = {}, must be 0 or 1", parity);
  waits = (mbarrier->phase & 1) == parity;
  if (waits)
    mbarrier->waiting.push_back({thread, parity, scope});
  else
    pass_on(*mbarrier, thread, scope);
  return {};
}

std::string Mbarriers::attach_copy(int thread, std::uint32_t address, CopySource source, Epoch& moment) {
  Mbarrier* mbarrier = nullptr;
  if (auto broken = find(thread, address, "asynchronous copy", mbarrier); !broken.empty()) return broken;
  if (checks_ && !mbarrier->fenced) {
    return fmt::format(
        "asynchronous copy on the mbarrier at {}, with no fence.mbarrier_init by {} that initialised it",
        shared_.text_of(address), clocks_.name(mbarrier->initialised.who));
  }
  Side& side = mbarrier->side(source);
  if (side.agent < 0) {
    const char* const what = source == CopySource::global ? "TMA" : "copies between blocks";
    side.agent = clocks_.add_agent(fmt::format("{} for the mbarrier at {}", what, shared_.text_of(address)));
  }
  moment = copy_moment(address, source);
  return {};
}

Epoch Mbarriers::copy_moment(std::uint32_t address, CopySource source) const {
  const Mbarrier& mbarrier = list_.at(address);
  return {mbarrier.side(source).agent, mbarrier.phase + 1};
}

std::string Mbarriers::complete(std::uint32_t address, int bytes) {
  Mbarrier& mbarrier = list_.at(address);
  if (bytes - mbarrier.bytes > kMostBytes)
    return fmt::format("{} bytes too many have come to {}", bytes - mbarrier.bytes, describe(address));
  mbarrier.bytes -= bytes;
  finish_phase(mbarrier);
  return {};
}

void Mbarriers::pass_on(const Mbarrier& mbarrier, int thread, Scope scope) {
  clocks_.leave(thread, mbarrier.block.completed);
  if (scope == Scope::cluster) clocks_.leave(thread, mbarrier.others.completed);
}

void Mbarriers::finish_phase(Mbarrier& mbarrier) {
  if (mbarrier.missing > 0 || mbarrier.bytes != 0) return;
  ++mbarrier.phase;
  mbarrier.missing = mbarrier.arrivals;
  for (Side* side : {&mbarrier.block, &mbarrier.others}) {
    if (side->agent >= 0) {
      const auto agent = static_cast<std::size_t>(side->agent);
      side->joining.resize(std::max(side->joining.size(), agent + 1));
      side->joining[agent] = mbarrier.phase;
    }
    side->completed = side->joining;  // `joining` keeps it, because later phases imply this one
  }
  for (const Waiting& waiting : std::exchange(mbarrier.waiting, {})) {
    if ((mbarrier.phase & 1) == waiting.parity) {
      mbarrier.waiting.push_back(waiting);
      continue;
    }
    pass_on(mbarrier, waiting.thread, waiting.scope);
    wake_(waiting.thread);
  }
}

std::string Mbarriers::describe(std::uint32_t address) const {
  const Mbarrier& mbarrier = list_.at(address);
  return fmt::format("the mbarrier at {} (phase {}: {} of {} arrivals and {} bytes are missing)",
                     shared_.text_of(address), mbarrier.phase, mbarrier.missing, mbarrier.arrivals,
                     mbarrier.bytes);
}

}  // namespace fa2::interpreter
