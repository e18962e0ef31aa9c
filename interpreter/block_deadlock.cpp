// What the threads of a block wait for when none can go on.
#include <fmt/format.h>
#include <interpreter/block.h>
#include <interpreter/cluster.h>
#include <interpreter/text.h>

#include <map>

namespace fa2::interpreter {

std::string Block::doing_of(int thread) const {
  const Thread& it = threads_[static_cast<std::size_t>(thread)];
  const std::string where = text_of(it.waits_at);
  switch (it.state) {
    case State::ready:
      return "can run";
    case State::in_warp:
      return fmt::format("waits in {} at {}", warps_[static_cast<std::size_t>(thread / 32)].name, where);
    case State::at_barrier:
      return fmt::format("waits in bar.sync {} at {} ({} of {} threads have arrived)", it.waits_for, where,
                         barriers_[it.waits_for].arrived, barriers_[it.waits_for].expected);
    case State::at_cluster_barrier:
      return fmt::format("waits at {} in {}", where, cluster_.barrier().describe());
    case State::at_mbarrier:
      return fmt::format("waits at {} for {}", where, mbarriers_.describe(it.waits_for));
    case State::at_flag:
      return fmt::format("waits at {} for a flag of another block to become {}, it is {}", where,
                         it.waits_for, flag_of(it.flag) & it.flag_mask);
    case State::for_registers:
      return fmt::format("waits at {} in {}", where, registers_.describe(thread / 32));
    case State::done:
      break;
  }
  return "ended";
}

std::string Block::doings() const {
  std::map<std::string, std::vector<int>> doing;
  for (int t = 0; t < static_cast<int>(threads_.size()); ++t) doing[doing_of(t)].push_back(t);
  std::string list;
  for (const auto& [what, threads] : doing) {
    list += fmt::format("\n  {} of {} threads{} (thread {} the first): {}", threads.size(), threads_.size(),
                        clocks_.of_block(rank_), threads.front(), what);
  }
  return list;
}

}  // namespace fa2::interpreter
