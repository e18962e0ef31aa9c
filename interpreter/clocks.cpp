// The clocks are a matrix with one row per thread.
#include <fmt/format.h>
#include <interpreter/clocks.h>

#include <algorithm>

namespace fa2::interpreter {
namespace {

constexpr std::size_t kAgentsAtFirst = 32;

}  // namespace

Clocks::Clocks(int threads_of_block, int blocks)
    : threads_of_block_(threads_of_block),
      blocks_(blocks),
      threads_(static_cast<std::size_t>(threads_of_block * blocks)),
      width_(threads_ + kAgentsAtFirst),
      times_(threads_ * width_),
      fences_(threads_),
      cluster_fences_(threads_) {
  reset();
}

void Clocks::reset(unsigned first_block) {
  first_block_ = first_block;
  std::fill(times_.begin(), times_.end(), 0);
  for (std::size_t t = 0; t < threads_; ++t) times_[t * width_ + t] = 1;
  for (auto* const list : {&fences_, &cluster_fences_}) {
    for (Fences& fences : *list) {
      fences.moments.clear();
      fences.known.clear();
    }
  }
  agents_.clear();
}

int Clocks::add_agent(std::string name) {
  agents_.push_back(std::move(name));
  if (threads_ + agents_.size() > width_) widen();
  return static_cast<int>(threads_ + agents_.size()) - 1;
}

void Clocks::widen() {
  const std::size_t wider = width_ + kAgentsAtFirst;
  std::vector<std::uint32_t> times(threads_ * wider);
  for (std::size_t t = 0; t < threads_; ++t) std::copy_n(&times_[t * width_], width_, &times[t * wider]);
  times_ = std::move(times);
  width_ = wider;
}

std::string Clocks::name(int who) const {
  if (is_agent(who)) return agents_[static_cast<std::size_t>(who) - threads_];
  return fmt::format("thread {}{}", index_in_block(who), of_block(block_of(who)));
}

std::string Clocks::of_block(int rank) const {
  return blocks_ == 1 ? "" : fmt::format(" of block {}", first_block_ + static_cast<unsigned>(rank));
}

bool Clocks::block_knows(int rank, Epoch then) const {
  const int first = rank * threads_of_block_;
  for (int t = first; t < first + threads_of_block_; ++t) {
    if (knows(t, then)) return true;
  }
  return false;
}

bool Clocks::knows_block(int thread, int rank) const {
  const std::uint32_t* const begin = of(thread) + rank * threads_of_block_;
  return std::any_of(begin, begin + threads_of_block_, [](std::uint32_t clock) { return clock > 0; });
}

void Clocks::arrive(int thread, Times& joined) {
  joined.resize(width_);
  std::uint32_t* const mine = of(thread);
  for (std::size_t i = 0; i < width_; ++i) joined[i] = std::max(joined[i], mine[i]);
  ++mine[thread];
}

void Clocks::leave(int thread, const Times& joined) {
  std::uint32_t* const mine = of(thread);
  for (std::size_t i = 0; i < joined.size(); ++i) mine[i] = std::max(mine[i], joined[i]);
}

void Clocks::learn(int thread, Epoch then) {
  std::uint32_t& known = of(thread)[then.who];
  known = std::max(known, then.clock);
}

void Clocks::fence_proxy(int thread, bool cluster) {
  const auto note = [&](Fences& fences) {
    fences.known.assign(of(thread), of(thread) + width_);
    fences.moments.push_back(now(thread).clock);
  };
  note(fences_[static_cast<std::size_t>(thread)]);
  if (cluster && blocks_ > 1) note(cluster_fences_[static_cast<std::size_t>(thread)]);
  pass(thread);
}

const Clocks::Fences& Clocks::fences_for(int thread, int rank) const {
  return (block_of(thread) == rank ? fences_ : cluster_fences_)[static_cast<std::size_t>(thread)];
}

bool Clocks::knows_fence(int thread, Epoch then, int rank) const {
  if (is_agent(then.who) || then.clock == 0) return true;
  const Times& known = fences_for(thread, rank).known;
  const auto writer = static_cast<std::size_t>(then.who);
  if (writer < known.size() && known[writer] >= then.clock) return true;
  const auto& moments = fences_for(then.who, rank).moments;
  const auto first = std::lower_bound(moments.begin(), moments.end(), then.clock);
  return first != moments.end() && knows(thread, {then.who, *first});
}

}  // namespace fa2::interpreter
