// A block's threads, and what a warp does together.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <interpreter/block.h>
#include <interpreter/cluster.h>
#include <interpreter/text.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

namespace fa2::interpreter {
namespace {

namespace context = boost::context;

constexpr std::uint32_t kWholeWarp = 0xffffffff;

}  // namespace

unsigned Block::flag_of(const unsigned* flag) {
  return std::atomic_ref(*const_cast<unsigned*>(flag)).load(std::memory_order_acquire);
}

Block::Block(const BlockShape& shape, Cluster& cluster, int rank)
    : name_(shape.name),
      options_(shape.options),
      cluster_(cluster),
      rank_(rank),
      clocks_(cluster.clocks()),
      shared_(shape.shared_bytes, clocks_, rank, options_.checks),
      mbarriers_(clocks_, shared_, options_.checks,
                 [this](int number) { wake(clocks_.index_in_block(number)); }),
      copies_(clocks_, shared_, mbarriers_, rank, options_),
      cluster_copies_(clocks_, shared_, mbarriers_, rank, options_),
      accesses_(clocks_, rank),
      mma_(clocks_, shared_, rank, shape.threads / 32, options_),
      sequence_(shape.threads / 32),
      registers_(shape.threads / 32, shape.registers, [this](int warp) { wake_for_registers(warp); }),
      stacks_(static_cast<std::size_t>(shape.threads)),
      threads_(static_cast<std::size_t>(shape.threads)),
      warps_(static_cast<std::size_t>(shape.threads / 32)),
      banks_(shape.threads / 32) {}

void Block::begin(Entry entry, const void* params, unsigned first_block, GlobalMemory& global,
                  BlockSignals& signals) {
  index_ = first_block + static_cast<unsigned>(rank_);
  global_ = &global;
  signals_ = &signals;
  failure_ = nullptr;
  shared_.reset();
  mbarriers_.reset();
  copies_.reset(global);
  cluster_copies_.reset();
  accesses_.reset();
  mma_.reset();
  sequence_.reset();
  registers_.reset();
  std::fill(warps_.begin(), warps_.end(), Warp{});
  std::fill(std::begin(barriers_), std::end(barriers_), Barrier{});
  arrivals_.clear();
  start(entry, params);
}

void Block::unwind() {
  for (std::size_t warp = 0; warp < warps_.size(); ++warp) banks_.count_plain(static_cast<int>(warp));
  threads_ = std::vector<Thread>(threads_.size());
}

bool Block::ended() const {
  return std::all_of(threads_.begin(), threads_.end(),
                     [](const Thread& thread) { return thread.state == State::done; });
}

unsigned Block::blocks_in_cluster() const {
  return static_cast<unsigned>(cluster_.size());
}

void Block::start(Entry entry, const void* params) {
  for (std::size_t t = 0; t < threads_.size(); ++t) {
    Thread& thread = threads_[t];
    thread.fiber = context::fiber(std::allocator_arg, stacks_[t].lend(),
                                  [this, &thread, entry, params](context::fiber&& scheduler) {
                                    thread.scheduler = std::move(scheduler);
                                    try {
                                      entry(params);
                                      end_thread();
                                    } catch (const Error&) {
                                      failure_ = std::current_exception();
                                    }
                                    thread.state = State::done;
                                    return std::move(thread.scheduler);
                                  });
  }
}

void Block::end_thread() {
  require_all_waited_for();
  Site site;
  const std::string broken = cluster_.barrier().end(current_number(), site);
  require(broken, site);
}

bool Block::land_next_copy() {
  std::string broken;
  Site site;
  if (!copies_.land_next(broken, site) && !cluster_copies_.land_next(broken, site))
    return land_next_arrival();
  if (!broken.empty()) fault(site, broken);
  return true;
}

bool Block::awaits_flag() const {
  return std::any_of(threads_.begin(), threads_.end(),
                     [](const Thread& thread) { return thread.state == State::at_flag; });
}

bool Block::end_polls() {
  bool any = false;
  for (Thread& thread : threads_) {
    if (thread.state != State::at_flag || !thread.polls) continue;
    thread.state = State::ready;
    any = true;
  }
  return any;
}

bool Block::wake_for_flags() {
  bool any = false;
  for (Thread& thread : threads_) {
    if (thread.state != State::at_flag || (flag_of(thread.flag) & thread.flag_mask) != thread.waits_for)
      continue;
    thread.state = State::ready;
    any = true;
  }
  return any;
}

void Block::finish() {
  Site site;
  if (!arrivals_.empty() && options_.checks) {
    const Arrival& arrival = arrivals_.front();
    fault(clocks_.index_in_block(arrival.issued.who), arrival.site,
          fmt::format("asynchronous copies that arrive at {}, never waited for",
                      mbarriers_.describe(arrival.mbarrier)));
  }
  std::string broken = copies_.finish(site);
  if (broken.empty()) broken = cluster_copies_.finish(site);
  if (broken.empty()) broken = mma_.finish(site);
  if (broken.empty()) broken = sequence_.finish(site);
  if (!broken.empty() && options_.checks) fault(site, broken);
  require_accesses_waited_for();
}

bool Block::resume_ready_threads(int warp) {
  bool any = false;
  for (current_ = warp * 32; current_ < warp * 32 + 32; ++current_) {
    Thread& thread = current();
    if (thread.state != State::ready) continue;
    any = true;
    thread.fiber = std::move(thread.fiber).resume();
    if (failure_) std::rethrow_exception(failure_);
  }
  return any;
}

void Block::wait(State state, unsigned waits_for, Site site) {
  Thread& thread = current();
  thread.state = state;
  thread.waits_for = waits_for;
  thread.waits_at = site;
  thread.scheduler = std::move(thread.scheduler).resume();
}

void Block::warp_wide(const char* name, WarpAction action, void* operands, bool orders_memory, Site site) {
  Warp& warp = warp_of(current_);
  const int lane = current_ % 32, first = current_ - lane;
  if (warp.arrived == 0) {
    warp.name = name;
    warp.action = action;
    warp.site = site;
    warp.first_lane = lane;
  } else if (warp.action != action || !same(warp.site, site)) {
    fault(current_, site,
          fmt::format("divergent warp: {} here, while lane {} waits in {} at {}", name, warp.first_lane,
                      warp.name, text_of(warp.site)));
  }
  warp.lanes[lane] = operands;
  warp.arrived |= 1u << lane;
  if (warp.arrived != kWholeWarp) return wait(State::in_warp, 0, site);

  warp.arrived = 0;
  banks_.count_plain(current_ / 32);
  action(*this, first, warp.lanes, site);
  Times joined;
  for (int t = first; orders_memory && t < first + 32; ++t) clocks_.arrive(number_of(t), joined);
  for (int t = first; t < first + 32; ++t) {
    if (orders_memory) clocks_.leave(number_of(t), joined);
    wake(t);
  }
}

void Block::fence_proxy_async(bool cluster) {
  clocks_.fence_proxy(current_number(), cluster);
}

void Block::store_flag(unsigned* flag, unsigned value, Site site) {
  require_global(Access::write, flag, 4, site);
  std::atomic_ref(*flag).store(value, std::memory_order_release);
  signals_->signal();
}

void Block::await_flag(const unsigned* flag, unsigned value, Site site) {
  require_global(Access::read, flag, 4, site);
  wait_for_flag(flag, ~0u, value, false, site);
}

unsigned Block::add_to_flag(unsigned* flag, unsigned value, Site site) {
  require_global(Access::read_write, flag, 4, site);
  const unsigned old = std::atomic_ref(*flag).fetch_add(value, std::memory_order_acq_rel);
  signals_->signal();
  return old;
}

bool Block::poll_flag(const unsigned* flag, unsigned mask, unsigned value, Site site) {
  require_global(Access::read, flag, 4, site);
  wait_for_flag(flag, mask, value, true, site);
  return (flag_of(flag) & mask) == value;
}

void Block::wait_for_flag(const unsigned* flag, unsigned mask, unsigned value, bool polls, Site site) {
  if ((flag_of(flag) & mask) == value) return;
  Thread& thread = current();
  thread.flag = flag;
  thread.flag_mask = mask;
  thread.polls = polls;
  wait(State::at_flag, value, site);
}

void Block::count_banks(const unsigned* addresses, int count, int bytes, Site site) {
  if (options_.checks) banks_.count(addresses, count, bytes, site);
}

void Block::check_index(int index, int size, Site site) {
  if (index < 0 || index >= size)
    fault(current_, site, fmt::format("index {} of a text of scores, must be in 0..{}", index, size - 1));
}

void Block::require(const std::string& broken_rule, Site site) const {
  if (!broken_rule.empty()) fault(current_, site, broken_rule);
}

void Block::fault(int thread, Site site, const std::string& what) const {
  throw KernelFault(fmt::format("{}\nkernel {}, block {}, {}, at {}", what, name_, index_,
                                thread_text(thread), text_of(site)));
}

void Block::fault(Site site, const std::string& what) const {
  throw KernelFault(fmt::format("{}\nkernel {}, block {}, at {}", what, name_, index_, text_of(site)));
}

}  // namespace fa2::interpreter
