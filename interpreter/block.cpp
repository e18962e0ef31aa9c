// Cooperative scheduling: a thread runs until it waits for others.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <interpreter/block.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

namespace fa2::interpreter {
namespace {

namespace context = boost::context;

constexpr std::uint32_t kWholeWarp = 0xffffffff;
constexpr std::size_t kMostCopied = 16;              ///< bytes, by one cp.async
constexpr std::uint64_t kPoison[] = {~0ull, ~0ull};  // NaN

std::string at(Site site) {
  return fmt::format("{}:{}", site.file, site.line);
}

std::string thread_text(int thread) {
  return fmt::format("thread {} (warp {}, lane {})", thread, thread / 32, thread % 32);
}

bool same(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

}  // namespace

Block::Block(std::string name, int threads, std::uint32_t shared_bytes, const Options& options)
    : name_(std::move(name)),
      options_(options),
      clocks_(threads),
      shared_(shared_bytes, clocks_, options.checks),
      stacks_(static_cast<std::size_t>(threads)),
      threads_(static_cast<std::size_t>(threads)),
      warps_(static_cast<std::size_t>(threads / 32)) {}

void Block::run(Entry entry, const void* params, unsigned index, GlobalMemory& global) {
  index_ = index;
  global_ = &global;
  failure_ = nullptr;
  clocks_.reset();
  shared_.reset();
  std::fill(warps_.begin(), warps_.end(), Warp{});
  std::fill(std::begin(barriers_), std::end(barriers_), Barrier{});
  start(entry, params);
  try {
    schedule();
  } catch (...) {
    failure_ = std::current_exception();
  }
  for (Warp& warp : warps_) count_plain_accesses(warp);
  threads_ = std::vector<Thread>(threads_.size());  // unwinds what has not ended
  if (failure_) std::rethrow_exception(failure_);
}

void Block::start(Entry entry, const void* params) {
  for (std::size_t t = 0; t < threads_.size(); ++t) {
    Thread& thread = threads_[t];
    thread.fiber = context::fiber(std::allocator_arg, stacks_[t].lend(),
                                  [this, &thread, entry, params](context::fiber&& scheduler) {
                                    thread.scheduler = std::move(scheduler);
                                    try {
                                      entry(params);
                                      require_all_waited_for();
                                    } catch (const Error&) {
                                      failure_ = std::current_exception();
                                    }
                                    thread.state = State::done;
                                    return std::move(thread.scheduler);
                                  });
  }
}

void Block::schedule() {
  std::vector<int> order(warps_.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(options_.seed + index_);
  for (;;) {
    if (options_.seed != 0) std::shuffle(order.begin(), order.end(), random);
    if (resume_ready_threads(order)) continue;
    const auto is_done = [](const Thread& thread) { return thread.state == State::done; };
    if (std::all_of(threads_.begin(), threads_.end(), is_done)) return;
    report_deadlock();
  }
}

bool Block::resume_ready_threads(const std::vector<int>& warp_order) {
  bool any = false;
  for (const int warp : warp_order) {
    for (current_ = warp * 32; current_ < warp * 32 + 32; ++current_) {
      Thread& thread = current();
      if (thread.state != State::ready) continue;
      any = true;
      thread.fiber = std::move(thread.fiber).resume();
      if (failure_) std::rethrow_exception(failure_);
    }
  }
  return any;
}

void Block::wait(State state, const Wait& wait) {
  Thread& thread = current();
  thread.state = state;
  thread.waits_in = wait;
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
                      warp.name, at(warp.site)));
  }
  warp.lanes[lane] = operands;
  warp.arrived |= 1u << lane;
  if (warp.arrived != kWholeWarp) return wait(State::in_warp, {name, site});

  warp.arrived = 0;
  count_plain_accesses(warp);
  action(*this, first, warp.lanes, site);
  Times joined;
  for (int t = first; orders_memory && t < first + 32; ++t) clocks_.arrive(t, joined);
  for (int t = first; t < first + 32; ++t) {
    if (orders_memory) clocks_.leave(t, joined);
    threads_[static_cast<std::size_t>(t)].state = State::ready;
  }
}

/// A barrier takes whole warps: no lane may wait in another one.
void Block::require_one_barrier(Site site) const {
  const int first = current_ - current_ % 32;
  for (int t = first; t < first + 32; ++t) {
    const Thread& other = threads_[static_cast<std::size_t>(t)];
    if (other.state != State::at_barrier || same(other.waits_in.site, site)) continue;
    fault(
        current_, site,
        fmt::format("divergent warp: a barrier here, while lane {} {}", t - first, text_of(other.waits_in)));
  }
}

bool Block::arrive(int id, int threads, Site site) {
  if (options_.checks) require_one_barrier(site);
  if (id < 0 || id >= kBarriers)
    fault(current_, site, fmt::format("barrier {}, there are 0..{}", id, kBarriers - 1));
  Barrier& barrier = barriers_[id];
  const int expected = threads == 0 ? static_cast<int>(threads_.size()) : threads;
  if (barrier.arrived > 0 && barrier.expected != expected) {
    fault(current_, site,
          fmt::format("barrier {} for {} threads here, for {} where others arrived", id, expected,
                      barrier.expected));
  }
  barrier.expected = expected;
  clocks_.arrive(current_, barrier.joined);
  if (++barrier.arrived < expected) return false;
  for (const int waiting : barrier.waiting) {
    clocks_.leave(waiting, barrier.joined);
    threads_[static_cast<std::size_t>(waiting)].state = State::ready;
  }
  return true;
}

void Block::bar_sync(int id, int threads, Site site) {
  if (arrive(id, threads, site)) {
    clocks_.leave(current_, barriers_[id].joined);
    barriers_[id] = {};
    return;
  }
  barriers_[id].waiting.push_back(current_);
  wait(State::at_barrier, {"bar.sync", site, id});
}

void Block::bar_arrive(int id, int threads, Site site) {
  if (arrive(id, threads, site)) barriers_[id] = {};
}

void Block::load_global(const void* from, void* to, int bytes, Site site) {
  if (options_.checks) require(global_->check_load(from, bytes), site);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void Block::store_global(void* to, const void* from, int bytes, Site site) {
  if (options_.checks) require(global_->check_store(to, bytes), site);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void Block::load_shared(unsigned from, void* to, int bytes, Site site) {
  note_plain_access(from, bytes, site);
  require(shared_.load(current_, from, to, bytes), site);
}

void Block::store_shared(unsigned to, const void* from, int bytes, Site site) {
  note_plain_access(to, bytes, site);
  require(shared_.store(current_, to, from, bytes), site);
}

void Block::load_shared_of(int thread, unsigned from, void* to, int bytes, Site site) {
  const std::string broken = shared_.load(thread, from, to, bytes);
  if (!broken.empty()) fault(thread, site, broken);
}

void Block::cp_async(unsigned to, const void* from, int bytes, int source_bytes, Site site) {
  if (source_bytes < 0 || source_bytes > bytes)
    fault(current_, site, fmt::format("asynchronous copy of {} bytes, {} of them read", bytes, source_bytes));
  if (source_bytes > 0 && options_.checks) require(global_->check_load(from, source_bytes), site);
  require(shared_.issue(current_, to, bytes), site);
  const Copy copy{to, from, bytes, source_bytes, site};
  current().open_group.push_back(copy);
  if (options_.late) {
    shared_.fill(to, kPoison, bytes);
  } else {
    land(copy);
  }
}

/// The data alone: what may be touched is a matter of waiting.
void Block::land(const Copy& copy) {
  unsigned char data[kMostCopied] = {};
  if (copy.source_bytes > 0) std::memcpy(data, copy.from, static_cast<std::size_t>(copy.source_bytes));
  shared_.fill(copy.to, data, copy.bytes);
}

void Block::cp_async_commit_group() {
  current().groups.push_back(std::move(current().open_group));
  current().open_group.clear();
}

void Block::cp_async_wait_group(int pending) {
  auto& groups = current().groups;
  for (; groups.size() > static_cast<std::size_t>(pending); groups.pop_front()) {
    for (const Copy& copy : groups.front()) {
      if (options_.late) land(copy);
      shared_.land(current_, copy.to, copy.bytes);
    }
  }
}

void Block::require_all_waited_for() {
  if (!options_.checks) return;
  const auto require_empty = [&](const std::vector<Copy>& group) {
    if (group.empty()) return;
    fault(current_, group.front().site,
          fmt::format("asynchronous copy to shared address {}, never waited for", group.front().to));
  };
  for (const auto& group : current().groups) require_empty(group);
  require_empty(current().open_group);
}

void Block::note_plain_access(unsigned address, int bytes, Site site) {
  if (!options_.checks) return;
  PlainAccesses& accesses = warp_of(current_).plain[{site.file, site.line}];
  accesses.bytes = bytes;
  accesses.addresses[current_ % 32].push_back(address);
}

/// The k-th access of every lane at a line counts as one instruction; 128 bytes of it go together.
void Block::count_plain_accesses(Warp& warp) {
  for (const auto& [site, accesses] : warp.plain) {
    const int together = std::min(32, 128 / accesses.bytes);
    std::size_t rounds = 0;
    for (const auto& lane : accesses.addresses) rounds = std::max(rounds, lane.size());
    for (std::size_t round = 0; round < rounds; ++round) {
      for (int first = 0; first < 32; first += together) {
        unsigned addresses[32];
        int count = 0;
        for (int lane = first; lane < first + together; ++lane) {
          if (round < accesses.addresses[lane].size()) addresses[count++] = accesses.addresses[lane][round];
        }
        count_banks(addresses, count, accesses.bytes, Site(site.first, site.second));
      }
    }
  }
  warp.plain.clear();
}

void Block::count_banks(const unsigned* addresses, int count, int bytes, Site site) {
  if (!options_.checks || count == 0) return;
  constexpr std::size_t kBanks = 32;
  std::vector<unsigned> words;
  words.reserve(4 * kBanks);
  for (int i = 0; i < count; ++i) {
    for (unsigned at = addresses[i] / 4; at < (addresses[i] + static_cast<unsigned>(bytes) + 3) / 4; ++at)
      words.push_back(at);
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  unsigned in_bank[kBanks] = {};
  for (const unsigned word : words) ++in_bank[word % kBanks];
  BankCount& sum = banks_[{site.file, site.line}];
  sum.wavefronts += *std::max_element(std::begin(in_bank), std::end(in_bank));
  sum.least += (words.size() + kBanks - 1) / kBanks;
}

void Block::require(const std::string& broken_rule, Site site) const {
  if (!broken_rule.empty()) fault(current_, site, broken_rule);
}

void Block::fault(int thread, Site site, const std::string& what) const {
  throw KernelFault(
      fmt::format("{}\nkernel {}, block {}, {}, at {}", what, name_, index_, thread_text(thread), at(site)));
}

std::string Block::text_of(const Wait& wait) const {
  if (wait.barrier < 0) return fmt::format("waits in {} at {}", wait.instruction, at(wait.site));
  const Barrier& barrier = barriers_[wait.barrier];
  return fmt::format("waits in {} {} at {} ({} of {} threads have arrived)", wait.instruction, wait.barrier,
                     at(wait.site), barrier.arrived, barrier.expected);
}

void Block::report_deadlock() const {
  std::map<std::string, std::vector<int>> waiting;
  for (std::size_t t = 0; t < threads_.size(); ++t) {
    const Thread& thread = threads_[t];
    waiting[thread.state == State::done ? "ended" : text_of(thread.waits_in)].push_back(static_cast<int>(t));
  }
  std::string list;
  for (const auto& [what, threads] : waiting) {
    list += fmt::format("\n  {} of {} threads (thread {} the first): {}", threads.size(), threads_.size(),
                        threads.front(), what);
  }
  throw KernelFault(fmt::format("deadlock: every thread waits\nkernel {}, block {}:{}", name_, index_, list));
}

}  // namespace fa2::interpreter
