// One access per thread suffices, because times only grow.
#include <interpreter/remote_accesses.h>

#include <cstddef>

namespace fa2::interpreter {

void RemoteAccesses::note(int thread, std::uint32_t address, Site site) {
  const auto index = static_cast<std::size_t>(thread);
  if (index >= newest_.size()) newest_.resize(index + 1);
  newest_[index] = {clocks_.now(thread), address, site};
}

std::optional<RemoteAccesses::Access> RemoteAccesses::missed() const {
  for (const Access& access : newest_) {
    if (!clocks_.block_knows(rank_, access.moment)) return access;
  }
  return {};
}

}  // namespace fa2::interpreter
