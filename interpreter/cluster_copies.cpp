// Copies read and land at issue, or when every thread waits.
#include <fmt/format.h>
#include <interpreter/cluster_copies.h>

#include <vector>

namespace fa2::interpreter {

ClusterCopies::ClusterCopies(Clocks& clocks, SharedMemory& shared, Mbarriers& mbarriers, int rank,
                             const Options& options)
    : clocks_(clocks), shared_(shared), mbarriers_(mbarriers), rank_(rank), options_(options) {}

void ClusterCopies::reset() {
  in_flight_.clear();
  newest_.clear();
}

std::string ClusterCopies::copy(int thread, std::uint32_t to, const Source& from, int bytes,
                                std::uint32_t mbarrier, Site site) {
  if (bytes <= 0 || bytes % 16 != 0)
    return fmt::format("bulk copy of {} bytes, must be a positive multiple of 16", bytes);
  Epoch moment;
  if (auto broken = mbarriers_.attach_copy(thread, mbarrier, CopySource::block, moment); !broken.empty())
    return broken;
  SharedMemory::AsyncReader reader{thread, 1, moment};
  if (auto broken = from.shared->read_async(reader, from.address, bytes); !broken.empty()) return broken;
  if (auto broken = shared_.issue(thread, moment, to, bytes, 16); !broken.empty()) return broken;
  const Copy copy{to, from, bytes, mbarrier, moment, site};
  newest_.insert_or_assign({moment.who, from.rank}, copy);
  if (!options_.late) return land(copy);
  const std::vector<unsigned char> poison(static_cast<std::size_t>(bytes), 0xff);
  shared_.fill(to, poison.data(), bytes);
  in_flight_.push_back(copy);
  return {};
}

std::string ClusterCopies::land(const Copy& copy) {
  if (mbarriers_.copy_moment(copy.mbarrier, CopySource::block).clock != copy.moment.clock)
    return fmt::format("bulk copy that completes after the phase in which it was issued, of {}",
                       mbarriers_.describe(copy.mbarrier));
  shared_.fill(copy.to, copy.from.shared->peek(copy.from.address), copy.bytes);
  shared_.land(copy.moment, copy.to, copy.bytes);
  return mbarriers_.complete(copy.mbarrier, copy.bytes);
}

bool ClusterCopies::land_next(std::string& broken, Site& site) {
  if (in_flight_.empty()) return false;
  const Copy copy = in_flight_.front();
  in_flight_.pop_front();
  site = copy.site;
  broken = land(copy);
  return true;
}

std::string ClusterCopies::finish(Site& site) const {
  for (const auto& [key, copy] : newest_) {
    site = copy.site;
    if (!clocks_.block_knows(rank_, copy.moment))
      return fmt::format(
          "bulk copy to shared address {}, which may have ended before the copy: none of its threads waits "
          "for {}",
          shared_.text_of(copy.to), mbarriers_.describe(copy.mbarrier));
    if (!clocks_.block_knows(copy.from.rank, copy.moment))
      return fmt::format(
          "bulk copy from shared address {}, which may have ended before the copy: none of its threads knows "
          "of a wait "
          "for {}",
          copy.from.shared->text_of(copy.from.address), mbarriers_.describe(copy.mbarrier));
  }
  if (!in_flight_.empty()) {
    site = in_flight_.front().site;
    return fmt::format("the cluster ended while a bulk copy is in flight, whose bytes {} did not expect",
                       mbarriers_.describe(in_flight_.front().mbarrier));
  }
  return {};
}

}  // namespace fa2::interpreter
