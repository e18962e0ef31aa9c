// Schedules a cluster's threads cooperatively: each runs until it waits for others.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <interpreter/cluster.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <random>
#include <string>

namespace fa2::interpreter {

Cluster::Cluster(const BlockShape& shape, int blocks, Attach attach)
    : shape_(shape),
      clocks_(shape.threads, blocks),
      barrier_(clocks_, shape.threads * blocks,
               [this](int thread) { block(clocks_.block_of(thread)).wake(clocks_.index_in_block(thread)); }),
      attach_(attach) {
  for (int rank = 0; rank < blocks; ++rank) blocks_.push_back(std::make_unique<Block>(shape, *this, rank));
}

void Cluster::run(Block::Entry entry, const void* params, unsigned first_block, GlobalMemory& global,
                  BlockSignals& signals) {
  signals_ = &signals;
  clocks_.reset(first_block);
  barrier_.reset();
  for (const auto& block : blocks_) block->begin(entry, params, first_block, global, signals);
  std::exception_ptr failure;
  try {
    schedule(shape_.options.seed + first_block);
  } catch (...) {
    failure = std::current_exception();
  }
  for (const auto& block : blocks_) {
    attach_(block.get());
    block->unwind();
  }
  if (failure) std::rethrow_exception(failure);
}

void Cluster::schedule(unsigned seed) {
  std::vector<int> order(static_cast<std::size_t>(size() * (shape_.threads / 32)));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(seed);
  for (;;) {
    signals_->interruption().check();
    if (shape_.options.seed != 0) std::shuffle(order.begin(), order.end(), random);
    if (resume_ready_threads(order)) continue;
    if (all_ended()) break;
    if (let_others_act()) continue;
    signals_->interruption().check();  // an interrupted block signals nothing
    report_deadlock();
  }
  for (const auto& block : blocks_) block->finish();
}

bool Cluster::resume_ready_threads(const std::vector<int>& order) {
  const int warps = shape_.threads / 32;
  bool any = false;
  const Block* attached = nullptr;
  for (const int index : order) {
    Block& owner = block(index / warps);
    if (&owner != attached) attach_(&owner);
    attached = &owner;
    any |= owner.resume_ready_threads(index % warps);
  }
  return any;
}

bool Cluster::all_ended() const {
  return std::all_of(blocks_.begin(), blocks_.end(), [](const auto& block) { return block->ended(); });
}

bool Cluster::let_others_act() {
  const auto any = [&](const auto& act) { return std::any_of(blocks_.begin(), blocks_.end(), act); };
  const std::uint64_t seen = signals_->count();
  bool woken = false;
  for (const auto& block : blocks_) woken |= block->wake_for_flags();
  if (woken || any([](const auto& block) { return block->land_next_copy(); })) return true;
  if (!any([](const auto& block) { return block->awaits_flag(); })) return false;
  if (signals_->wait(seen)) return true;
  for (const auto& block : blocks_) woken |= block->end_polls();
  return woken;
}

void Cluster::report_deadlock() const {
  std::string list;
  for (const auto& block : blocks_) list += block->doings();
  const unsigned first = blocks_.front()->block_index();
  const std::string which = size() == 1
                                ? fmt::format("block {}", first)
                                : fmt::format("blocks {} to {}", first, blocks_.back()->block_index());
  throw KernelFault(fmt::format("deadlock: every thread waits\nkernel {}, {}:{}", shape_.name, which, list));
}

}  // namespace fa2::interpreter
