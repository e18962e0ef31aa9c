// Memory accesses and copies of a block's threads.
#include <fmt/format.h>
#include <interpreter/block.h>

#include <atomic>
#include <cstring>
#include <utility>

namespace fa2::interpreter {
namespace {

constexpr std::size_t kMostCopied = 16;              ///< bytes of one cp.async
constexpr std::uint64_t kPoison[] = {~0ull, ~0ull};  // NaN

}  // namespace

void Block::load_global(const void* from, void* to, int bytes, Site site) {
  require_global(Access::read, from, bytes, site);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void Block::store_global(void* to, const void* from, int bytes, Site site) {
  require_global(Access::write, to, bytes, site);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void Block::load_shared(unsigned from, void* to, int bytes, Site site) {
  if (options_.checks) banks_.note_plain(current_, from, bytes, site);
  require(shared_.load(current_number(), from, to, bytes), site);
}

void Block::store_shared(unsigned to, const void* from, int bytes, Site site) {
  if (options_.checks) banks_.note_plain(current_, to, bytes, site);
  require(shared_.store(current_number(), to, from, bytes), site);
}

void Block::load_shared_of(int thread, unsigned from, void* to, int bytes, Site site) {
  const std::string broken = shared_.load(number_of(thread), from, to, bytes);
  if (!broken.empty()) fault(thread, site, broken);
}

void Block::store_shared_of(int thread, unsigned to, const void* from, int bytes, Site site) {
  const std::string broken = shared_.store(number_of(thread), to, from, bytes);
  if (!broken.empty()) fault(thread, site, broken);
}

void Block::cp_async(unsigned to, const void* from, int bytes, int source_bytes, Site site) {
  if (source_bytes < 0 || source_bytes > bytes)
    fault(current_, site, fmt::format("asynchronous copy of {} bytes, {} of them read", bytes, source_bytes));
  if (source_bytes > 0) require_global(Access::read, from, source_bytes, site);
  require(shared_.issue(current_number(), clocks_.now(current_number()), to, bytes, bytes), site);
  const Copy copy{to, from, bytes, source_bytes, site};
  current().open_group.push_back(copy);
  if (options_.late) {
    shared_.fill(to, kPoison, bytes);
  } else {
    land(copy);
  }
}

/// Stores the data. The thread's wait decides when it may be read.
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
      shared_.land(clocks_.now(current_number()), copy.to, copy.bytes);
    }
  }
}

void Block::cp_async_mbarrier_arrive(unsigned mbarrier, Site site) {
  require(mbarriers_.expect_arrival(current_number(), mbarrier), site);
  Arrival arrival{clocks_.pass(current_number()), std::move(current().open_group), mbarrier, site};
  for (const auto& group : std::exchange(current().groups, {}))
    arrival.copies.insert(arrival.copies.end(), group.begin(), group.end());
  current().open_group.clear();
  arrivals_.push_back(std::move(arrival));
  if (!options_.late) land_next_arrival();
}

bool Block::land_next_arrival() {
  if (arrivals_.empty()) return false;
  const Arrival arrival = std::move(arrivals_.front());
  arrivals_.pop_front();
  for (const Copy& copy : arrival.copies) {
    if (options_.late) land(copy);
    shared_.land(arrival.issued, copy.to, copy.bytes);
  }
  const std::string broken = mbarriers_.arrive_at(arrival.issued, arrival.mbarrier);
  if (!broken.empty()) fault(clocks_.index_in_block(arrival.issued.who), arrival.site, broken);
  return true;
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

void Block::tensor_load(unsigned to, const TensorMap& map, const int* box, unsigned mbarrier, Site site) {
  BulkMemory from;
  require(BulkCopies::read_map(map, box, from), site);
  require(copies_.load(current_number(), to, from, mbarrier, site), site);
}

void Block::bulk_load(unsigned to, const void* from, int bytes, unsigned mbarrier, Site site) {
  require_order(from, bytes, site);
  const BulkMemory memory{{}, {}, const_cast<std::byte*>(static_cast<const std::byte*>(from)), bytes};
  require(copies_.load(current_number(), to, memory, mbarrier, site), site);
}

void Block::tensor_store(const TensorMap& map, const int* box, unsigned from, Site site) {
  BulkMemory to;
  require(BulkCopies::read_map(map, box, to), site);
  require(copies_.store(current_number(), to, from, false, site), site);
}

void Block::bulk_reduce_add(float* to, unsigned from, int bytes, Site site) {
  require_order(to, bytes, site);
  const BulkMemory memory{{}, {}, reinterpret_cast<std::byte*>(to), bytes};
  require(copies_.store(current_number(), memory, from, true, site), site);
}

void Block::bulk_commit_group() {
  copies_.commit_group(current_number());
}

void Block::bulk_wait_group(int pending, bool read_only) {
  copies_.wait_group(current_number(), pending, read_only);
}

void Block::require_global(Access access, const void* address, int bytes, Site site) {
  if (!options_.checks) return;
  require(global_->check(access, address, bytes, bytes), site);
  require_order(address, bytes, site);
  if (access != Access::read) global_->note_store(address, bytes);
}

void Block::require_order(const void* address, int bytes, Site site) {
  if (options_.checks && !current().has_waited) require(global_->check_order(address, bytes), site);
}

unsigned Block::atomic_add(unsigned* address, unsigned value, Site site) {
  require_global(Access::read_write, address, 4, site);
  return std::atomic_ref(*address).fetch_add(value, std::memory_order_relaxed);
}

unsigned Block::atomic_inc(unsigned* address, unsigned limit, Site site) {
  require_global(Access::read_write, address, 4, site);
  const std::atomic_ref counter(*address);
  unsigned old = counter.load(std::memory_order_relaxed);
  while (!counter.compare_exchange_weak(old, old >= limit ? 0 : old + 1, std::memory_order_acq_rel)) continue;
  return old;
}

long long Block::atomic_add(long long* address, long long value, Site site) {
  require_global(Access::read_write, address, 8, site);
  return std::atomic_ref(*address).fetch_add(value, std::memory_order_relaxed);
}

float Block::atomic_add(float* address, float value, Site site) {
  require_global(Access::read_write, address, 4, site);
  return std::atomic_ref(*address).fetch_add(value, std::memory_order_relaxed);
}

float Block::atomic_max(float* address, float value, Site site) {
  require_global(Access::read_write, address, 4, site);
  const std::atomic_ref greatest(*address);
  float old = greatest.load(std::memory_order_relaxed);
  while (!(old >= value) && !greatest.compare_exchange_weak(old, value, std::memory_order_relaxed)) continue;
  return old;
}

void Block::atomic_add_v4(float* address, const float* values, Site site) {
  require_global(Access::read_write, address, 16, site);
  for (int i = 0; i < 4; ++i) std::atomic_ref(address[i]).fetch_add(values[i], std::memory_order_relaxed);
}

}  // namespace fa2::interpreter
