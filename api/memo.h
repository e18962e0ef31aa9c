// A bounded map of values that are expensive to make: one thread makes each, and readers hardly wait.
#pragma once

#include <cstddef>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace fa2 {

/// Keeps the most recently made or used values: at least `capacity` / 2 of them, and at most `capacity`. They form two
/// generations of `capacity` / 2. A full young generation replaces the old one, which is dropped. `Value` must be cheap to copy.
/// Thread-safe.
template <class Key, class Value, class Hash = std::hash<Key>>
class Memo {
 public:
  explicit Memo(std::size_t capacity) : generation_(capacity / 2 > 0 ? capacity / 2 : 1) {}

  /// Returns the value, if there is one. For a key of the young generation, takes a shared lock, does one look-up and allocates
  /// nothing. For a key of the old generation, takes an exclusive lock and may allocate.
  std::optional<Value> find(const Key& key) {
    {
      const std::shared_lock lock(mutex_);
      const auto hit = young_.find(key);
      if (hit != young_.end()) return hit->second;
      if (!old_.contains(key)) return std::nullopt;
    }
    const std::unique_lock lock(mutex_);
    return find_locked(key);
  }

  /// Returns the value, made by `make()` if there is none. Threads that ask for the same key at once wait for one make(). If it
  /// throws, all of them get its exception, and the memo keeps nothing.
  template <class Make>
  Value get(const Key& key, const Make& make) {
    std::promise<Value> promise;
    std::shared_future<Value> pending;
    std::size_t epoch = 0;
    {
      const std::unique_lock lock(mutex_);
      if (auto hit = find_locked(key)) return *std::move(hit);
      const auto [flight, is_first] = in_flight_.try_emplace(key);
      if (is_first) {
        flight->second = promise.get_future().share();
      } else {
        pending = flight->second;
      }
      epoch = epoch_;
    }
    if (pending.valid()) return pending.get();
    return land(key, make, promise, epoch);
  }

  /// Forgets every value. Threads that wait for a value still get it, but the memo does not keep it.
  void clear() {
    const std::unique_lock lock(mutex_);
    young_.clear();
    old_.clear();
    ++epoch_;
  }

  std::size_t size() const {
    const std::shared_lock lock(mutex_);
    return young_.size() + old_.size();
  }

 private:
  using Values = std::unordered_map<Key, Value, Hash>;

  template <class Make>
  Value land(const Key& key, const Make& make, std::promise<Value>& promise, std::size_t epoch) {
    try {
      Value value = make();
      {
        const std::unique_lock lock(mutex_);
        if (epoch == epoch_) insert(key, value);
        in_flight_.erase(key);
      }
      promise.set_value(value);
      return value;
    } catch (...) {
      {
        const std::unique_lock lock(mutex_);
        in_flight_.erase(key);
      }
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  /// Moves a value of the old generation to the young one.
  std::optional<Value> find_locked(const Key& key) {
    const auto hit = young_.find(key);
    if (hit != young_.end()) return hit->second;
    const auto aging = old_.find(key);
    if (aging == old_.end()) return std::nullopt;
    auto node = old_.extract(aging);  // moves the node, so that nothing is allocated
    make_room();
    return young_.insert(std::move(node)).position->second;
  }

  void insert(const Key& key, const Value& value) {
    make_room();
    young_.insert_or_assign(key, value);
  }

  void make_room() {
    if (young_.size() < generation_) return;
    old_.clear();
    old_.swap(young_);
  }

  const std::size_t generation_;
  mutable std::shared_mutex mutex_;
  Values young_, old_;
  std::unordered_map<Key, std::shared_future<Value>, Hash> in_flight_;
  std::size_t epoch_ = 0;
};

}  // namespace fa2
