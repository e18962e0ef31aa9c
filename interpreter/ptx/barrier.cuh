// Barriers, shuffles and votes.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

FA2_DEVICE void bar_sync(Site site = {}) {
  machine->bar_sync(0, 0, site);
}

FA2_DEVICE void bar_sync(int barrier, int threads, Site site = {}) {
  machine->bar_sync(barrier, threads, site);
}

FA2_DEVICE void bar_arrive(int barrier, int threads, Site site = {}) {
  machine->bar_arrive(barrier, threads, site);
}

FA2_DEVICE bool elect_one(Site site = {}) {
  machine->warp_wide(
      "elect.sync", [](Machine&, int, void* const*, Site) {}, nullptr, false, site);
  return machine->thread_index() % 32 == machine->elected_lane();
}

FA2_DEVICE void bar_warp_sync(Site site = {}) {
  machine->warp_wide(
      "bar.warp.sync", [](Machine&, int, void* const*, Site) {}, nullptr, true, site);
}

template <class Value>
struct Shuffle {
  Value value;
  int from;  ///< lane
  Value other;
};

template <class Value>
FA2_DEVICE Value shuffle(const char* name, Value value, int from, Site site) {
  Shuffle<Value> mine{value, from & 31, {}};
  const auto exchange = [](Machine&, int, void* const* lanes, Site) {
    for (int lane = 0; lane < 32; ++lane) {
      auto* const to = static_cast<Shuffle<Value>*>(lanes[lane]);
      to->other = static_cast<Shuffle<Value>*>(lanes[to->from])->value;
    }
  };
  machine->warp_wide(name, exchange, &mine, false, site);
  return mine.other;
}

FA2_DEVICE float shfl_bfly(float value, int lane_mask, Site site = {}) {
  return shuffle("shfl.sync.bfly", value, machine->thread_index() ^ lane_mask, site);
}

FA2_DEVICE u32 shfl_bfly(u32 value, int lane_mask, Site site = {}) {
  return shuffle("shfl.sync.bfly", value, machine->thread_index() ^ lane_mask, site);
}

FA2_DEVICE int shfl_idx(int value, int lane, Site site = {}) {
  return shuffle("shfl.sync.idx", value, lane, site);
}

FA2_DEVICE float shfl_idx(float value, int lane, Site site = {}) {
  return shuffle("shfl.sync.idx", value, lane, site);
}

// As on a GPU the first lane's, so that values which differ are noticed.
FA2_DEVICE u32 renewed(u32 value, Site site = {}) {
  return shuffle("shfl.sync.idx", value, 0, site);
}

FA2_DEVICE bool vote_any(bool predicate, Site site = {}) {
  bool vote = predicate;
  const auto count = [](Machine&, int, void* const* lanes, Site) {
    bool any = false;
    for (int lane = 0; lane < 32; ++lane) any |= *static_cast<bool*>(lanes[lane]);
    for (int lane = 0; lane < 32; ++lane) *static_cast<bool*>(lanes[lane]) = any;
  };
  machine->warp_wide("vote.sync.any", count, &vote, false, site);
  return vote;
}

FA2_DEVICE int renewed_in_lane(int value) {
  return value;
}

FA2_DEVICE u32 vote_ballot(bool predicate, Site site = {}) {
  u32 vote = predicate;
  const auto collect = [](Machine&, int, void* const* lanes, Site) {
    u32 all = 0;
    for (int lane = 0; lane < 32; ++lane) all |= *static_cast<u32*>(lanes[lane]) << lane;
    for (int lane = 0; lane < 32; ++lane) *static_cast<u32*>(lanes[lane]) = all;
  };
  machine->warp_wide("vote.sync.ballot", collect, &vote, false, site);
  return vote;
}

}  // namespace fa2::ptx
