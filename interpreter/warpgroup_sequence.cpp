// The first warp to reach a step defines it; the others must match.
#include <fmt/format.h>
#include <interpreter/text.h>
#include <interpreter/warpgroup_sequence.h>

#include <algorithm>

namespace fa2::interpreter {

void WarpgroupSequence::reset() {
  std::fill(done_.begin(), done_.end(), 0);
  for (Group& group : groups_) group = {};
}

std::string WarpgroupSequence::follow(int warp, const WarpgroupStep& step) {
  const std::size_t first = static_cast<std::size_t>(warp) / 4 * 4;
  if (first + 4 > done_.size())
    return fmt::format("{} in a warpgroup of {} threads, must be 128", step.name,
                       32 * (done_.size() - first));
  Group& group = groups_[first / 4];
  std::uint64_t& mine = done_[static_cast<std::size_t>(warp)];
  if (mine - group.first == group.steps.size()) group.steps.push_back(step);
  const WarpgroupStep& other = group.steps[mine - group.first];
  ++mine;
  if (!same(other.site, step.site) || std::string_view(other.name) != step.name) {
    return fmt::format("divergent warpgroup: {} here, while another warp of it is in {} at {}", step.name,
                       other.name, text_of(other.site));
  }
  if (!std::equal(std::begin(other.operands), std::end(other.operands), std::begin(step.operands)))
    return fmt::format("{} with other operands than another warp of the warpgroup", step.name);
  const std::uint64_t oldest = *std::min_element(&done_[first], &done_[first] + 4);
  for (; group.first < oldest; ++group.first) group.steps.pop_front();
  return {};
}

std::string WarpgroupSequence::finish(Site& site) const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].steps.empty()) continue;
    site = groups_[g].steps.front().site;
    return fmt::format("the block ended with a {} that not all warps of warpgroup {} have executed",
                       groups_[g].steps.front().name, g);
  }
  return {};
}

}  // namespace fa2::interpreter
