// Loads land at issue, or when every thread waits. Stores read and write at issue, or in their waits.
#include <fmt/format.h>
#include <interpreter/bulk_copies.h>
#include <interpreter/tensor_box.h>
#include <interpreter/text.h>

#include <atomic>
#include <cstring>
#include <utility>

namespace fa2::interpreter {
namespace {

/// Calls visit(offset, global, first, end) as TensorBox::for_each_row does; plain bytes are one row.
template <class Visit>
void for_each_row(const BulkMemory& memory, const Visit& visit) {
  if (memory.map)
    TensorBox(*memory.map, memory.at).for_each_row(visit);
  else
    visit(0, memory.begin, 0, memory.bytes);
}

Swizzle swizzle_of(const BulkMemory& memory) {
  return memory.map ? memory.map->swizzle : Swizzle::none;
}

/// Returns the alignment that the shared side needs; bytes.
int alignment_of(const BulkMemory& memory) {
  if (!memory.map) return 16;
  return memory.map->swizzle == Swizzle::none ? 128 : 8 * span_of(memory.map->swizzle);
}

std::string check_plain(const BulkMemory& memory) {
  if (memory.map || (memory.bytes > 0 && memory.bytes % 16 == 0)) return {};
  return fmt::format("bulk copy of {} bytes, must be a positive multiple of 16", memory.bytes);
}

int global_alignment(const BulkMemory& memory) {
  return memory.map ? bytes_of(memory.map->element) : 16;
}

}  // namespace

BulkCopies::BulkCopies(Clocks& clocks, SharedMemory& shared, Mbarriers& mbarriers, int rank,
                       const Options& options)
    : clocks_(clocks), shared_(shared), mbarriers_(mbarriers), rank_(rank), options_(options) {}

void BulkCopies::reset(GlobalMemory& global) {
  global_ = &global;
  loads_.clear();
  groups_.clear();
  newest_.clear();
}

std::string BulkCopies::read_map(const TensorMap& map, const int* at, BulkMemory& memory) {
  memory.map.emplace();
  std::memcpy(&*memory.map, &map, sizeof *memory.map);
  if (memory.map->mark != InterpretedTensorMap::kMark)
    return "TMA copy through a tensor map that encode_tensor_map has not made for the interpreter";
  if (at[0] * bytes_of(memory.map->element) % 16 != 0)
    return fmt::format(
        "TMA copy of a box that starts at element {} of its rows, must be a multiple of 16 bytes", at[0]);
  std::copy_n(at, 5, memory.at);
  memory.bytes = TensorBox(*memory.map, at).bytes();
  return {};
}

std::string BulkCopies::check_load(const BulkMemory& memory) const {
  std::string broken = check_plain(memory);
  bool is_empty = true;
  for_each_row(memory, [&](int, const std::byte* global, int first, int end) {
    if (first == end) return;
    is_empty = false;
    if (broken.empty() && options_.checks)
      broken = global_->check_load(global, end - first, global_alignment(memory));
  });
  // An H200 touches this memory, and its TMA faults if no allocation holds it.
  if (memory.map && is_empty && options_.checks && !global_->check_load(memory.map->data, 16, 16).empty())
    return "TMA load of a box that has no element: it touches the beginning of its tensor map, which lies in "
           "no operand";
  return broken;
}

std::string BulkCopies::check_store(const BulkMemory& memory, bool adds) const {
  std::string broken = check_plain(memory);
  for (int i = 0; memory.map && i < 5; ++i) {
    if (memory.at[i] < 0)
      return fmt::format(
          "TMA store to coordinate {} in dimension {}: a load may start below 0, a store may not",
          memory.at[i], i);
  }
  for_each_row(memory, [&](int, const std::byte* global, int first, int end) {
    if (!broken.empty() || first == end || !options_.checks) return;
    const int bytes = end - first, alignment = global_alignment(memory);
    broken = adds ? global_->check_atomic(global, bytes, alignment)
                  : global_->check_store(global, bytes, alignment);
  });
  return broken;
}

std::string BulkCopies::load(int thread, std::uint32_t to, const BulkMemory& from, std::uint32_t mbarrier,
                             Site site) {
  Epoch moment;
  if (auto broken = check_load(from); !broken.empty()) return broken;
  if (auto broken = mbarriers_.attach_copy(thread, mbarrier, CopySource::global, moment); !broken.empty())
    return broken;
  if (auto broken = shared_.issue(thread, moment, to, from.bytes, alignment_of(from)); !broken.empty())
    return broken;
  newest_.insert_or_assign(moment.who, Unwaited{moment, site});
  const Load load{to, from, mbarrier, site};
  if (!options_.late) return land(load);
  const std::vector<unsigned char> poison(static_cast<std::size_t>(from.bytes), 0xff);
  shared_.fill(to, poison.data(), from.bytes);
  loads_.push_back(load);
  return {};
}

std::string BulkCopies::land(const Load& load) {
  std::vector<std::byte> row;
  const int row_bytes = load.from.map ? TensorBox(*load.from.map, load.from.at).row_bytes() : load.from.bytes;
  for_each_row(load.from, [&](int offset, const std::byte* global, int first, int end) {
    row.assign(static_cast<std::size_t>(row_bytes), std::byte{});
    if (first < end)
      std::memcpy(&row[static_cast<std::size_t>(first)], global, static_cast<std::size_t>(end - first));
    for (int chunk = 0; chunk < row_bytes; chunk += 16) {
      const auto to = load.to + static_cast<std::uint32_t>(offset + chunk);
      shared_.fill(swizzled(swizzle_of(load.from), to), &row[static_cast<std::size_t>(chunk)], 16);
    }
  });
  shared_.land(mbarriers_.copy_moment(load.mbarrier, CopySource::global), load.to, load.from.bytes);
  return mbarriers_.complete(load.mbarrier, load.from.bytes);
}

bool BulkCopies::land_next(std::string& broken, Site& site) {
  if (loads_.empty()) return false;
  const Load load = loads_.front();
  loads_.pop_front();
  site = load.site;
  broken = land(load);
  return true;
}

std::string BulkCopies::store(int thread, const BulkMemory& to, std::uint32_t from, bool adds, Site site) {
  if (auto broken = check_store(to, adds); !broken.empty()) return broken;
  Groups& groups = groups_[thread];
  if (groups.agent < 0)
    groups.agent = clocks_.add_agent("TMA for the bulk groups of " + clocks_.name(thread));
  SharedMemory::AsyncReader reader{thread, 1, {groups.agent, groups.opened}};
  if (from % static_cast<std::uint32_t>(alignment_of(to)) != 0)
    return fmt::format("bulk copy from shared address {}: misaligned, it must be a multiple of {}", from,
                       alignment_of(to));
  if (auto broken = shared_.read_async(reader, from, to.bytes); !broken.empty()) return broken;
  Store store{to, from, adds, site, {}};
  if (!options_.late) {
    store.data = bytes_in_order(to, from);
    write(store);
  }
  groups.open.push_back(std::move(store));
  return {};
}

/// Returns the bytes from `from` on, without the swizzle.
std::vector<std::byte> BulkCopies::bytes_in_order(const BulkMemory& memory, std::uint32_t from) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(memory.bytes));
  for (std::uint32_t chunk = 0; chunk < bytes.size(); chunk += 16)
    std::memcpy(&bytes[chunk], shared_.peek(swizzled(swizzle_of(memory), from + chunk)), 16);
  return bytes;
}

void BulkCopies::write(const Store& store) {
  for_each_row(store.to, [&](int offset, std::byte* global, int first, int end) {
    if (first == end) return;
    const std::byte* const from = store.data.data() + offset + first;
    const auto bytes = static_cast<std::size_t>(end - first);
    if (!store.adds) std::memcpy(global, from, bytes);
    for (std::size_t i = 0; store.adds && i < bytes; i += sizeof(float)) {
      float value;
      std::memcpy(&value, from + i, sizeof value);
      std::atomic_ref(*reinterpret_cast<float*>(global + i)).fetch_add(value, std::memory_order_relaxed);
    }
    if (options_.checks) global_->note_store(global, end - first);
  });
}

void BulkCopies::commit_group(int thread) {
  Groups& groups = groups_[thread];
  groups.committed.push_back({std::exchange(groups.open, {})});
  ++groups.opened;
}

void BulkCopies::wait_group(int thread, int pending, bool read_only) {
  Groups& groups = groups_[thread];
  const int done = static_cast<int>(groups.committed.size()) - pending;
  for (int i = 0; i < done; ++i) {
    Group& group = groups.committed[static_cast<std::size_t>(i)];
    for (Store& store : group.stores) {
      if (options_.late && !group.read) store.data = bytes_in_order(store.to, store.from);
      if (options_.late && !read_only) write(store);
    }
    group.read = true;
  }
  if (done > 0 && groups.agent >= 0) {
    const auto newest = groups.opened - static_cast<std::uint32_t>(pending) - 1;
    clocks_.learn(thread, {groups.agent, newest});
  }
  for (int i = 0; i < done && !read_only; ++i) groups.committed.pop_front();
}

std::string BulkCopies::finish(Site& site) {
  for (const auto& [agent, load] : newest_) {
    if (clocks_.block_knows(rank_, load.moment)) continue;
    site = load.site;
    return "the block ended while a bulk load may be in flight: no thread has waited for it";
  }
  for (auto& [thread, groups] : groups_) {
    if (!groups.open.empty()) {
      site = groups.open.front().site;
      return fmt::format("the block ended with a bulk store of {} that no bulk_commit_group follows",
                         clocks_.name(thread));
    }
    for (const Group& group : groups.committed) {
      if (group.stores.empty()) continue;
      if (!group.read) {
        site = group.stores.front().site;
        return fmt::format("the block ended while a bulk store of {} may still read shared memory",
                           clocks_.name(thread));
      }
      for (const Store& store : group.stores) {
        if (options_.late) write(store);
      }
    }
  }
  return {};
}

}  // namespace fa2::interpreter
