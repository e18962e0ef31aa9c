// Keeps the program's poll function and decides when to call it.
#include <fa2/errors.h>
#include <runtime/interrupt.h>

#include <mutex>
#include <utility>

namespace fa2 {
namespace {

using namespace std::chrono_literals;

constexpr auto kPeriod = 50ms;

std::mutex interrupt_mutex;
std::pair<InterruptPoll, void*> current{nullptr, nullptr};

bool is_interrupt_wanted() {
  std::pair<InterruptPoll, void*> asked;
  {
    const std::lock_guard lock(interrupt_mutex);
    asked = current;
  }
  return asked.first != nullptr && asked.first(asked.second) != 0;
}

}  // namespace

void set_interrupt(InterruptPoll poll, void* data) {
  const std::lock_guard lock(interrupt_mutex);
  current = {poll, data};
}

void Interruption::check() {
  if (std::this_thread::get_id() == asks_ && !is_wanted_) {
    const Clock::time_point now = Clock::now();
    if (now - asked_ < kPeriod) return;
    is_wanted_ = is_interrupt_wanted();
    asked_ = Clock::now();
  }
  if (is_wanted_)
    throw Interrupted(
        "the call was interrupted by the program's function (fa2_set_interrupt): repeat the call");
}

}  // namespace fa2
