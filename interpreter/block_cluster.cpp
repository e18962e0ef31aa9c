// Accesses to the shared memory of other blocks of the cluster.
#include <fmt/format.h>
#include <interpreter/block.h>
#include <interpreter/cluster.h>

namespace fa2::interpreter {
namespace {

/// A shared::cluster address is a shared address with the block's rank plus 1 above it. So neither passes for the other.
constexpr int kRankBit = 24;
constexpr unsigned kSharedMask = (1u << kRankBit) - 1;

}  // namespace

std::string Block::may_have_ended(unsigned address) const {
  return fmt::format(
      "access to shared address {}, which may have ended: none of its threads waits for the access",
      shared_.text_of(address));
}

unsigned Block::mapa(unsigned address, unsigned rank, Site site) {
  if (rank >= blocks_in_cluster()) {
    fault(current_, site,
          fmt::format("mapa of shared address {}: rank = {}, must be below {}", shared_.text_of(address),
                      rank, blocks_in_cluster()));
  }
  return (rank + 1) << kRankBit | (address & kSharedMask);
}

Block& Block::require_alive(int rank, unsigned address, Site site) {
  Block& other = cluster_.block(rank);
  if (&other == this || !options_.checks) return other;
  if (!clocks_.knows_block(current_number(), rank)) {
    fault(current_, site,
          fmt::format(
              "access to shared address {}, which may not have begun: no barrier.cluster and no arrival from "
              "that block comes before",
              other.shared_.text_of(address)));
  }
  if (other.ended()) fault(current_, site, other.may_have_ended(address));
  return other;
}

Block::Location Block::locate(unsigned address, Site site) {
  const int rank = static_cast<int>(address >> kRankBit) - 1;
  if (rank < 0 || rank >= cluster_.size())
    fault(current_, site, fmt::format("shared::cluster address {:#x}, must come from mapa", address));
  return {require_alive(rank, address & kSharedMask, site), address & kSharedMask};
}

void Block::note_access(const Location& to, Site site) {
  if (&to.block != this && options_.checks) to.block.accesses_.note(current_number(), to.address, site);
}

void Block::require_accesses_waited_for() const {
  const auto access = accesses_.missed();
  if (!access) return;
  const int number = access->moment.who;
  cluster_.block(clocks_.block_of(number))
      .fault(clocks_.index_in_block(number), access->site, may_have_ended(access->address));
}

void Block::load_cluster(unsigned from, void* to, int bytes, Site site) {
  const Location place = locate(from, site);
  note_access(place, site);
  require(place.block.shared_.load(current_number(), place.address, to, bytes), site);
}

void Block::store_cluster(unsigned to, const void* from, int bytes, Site site) {
  const Location place = locate(to, site);
  note_access(place, site);
  require(place.block.shared_.store(current_number(), place.address, from, bytes), site);
}

void Block::mbarrier_arrive_cluster(unsigned mbarrier, Site site) {
  const Location place = locate(mbarrier, site);
  note_access(place, site);
  require(place.block.mbarriers_.arrive(current_number(), place.address, 0), site);
}

void Block::bulk_copy_cluster(unsigned to, unsigned from, int bytes, unsigned mbarrier, Site site) {
  if (cluster_.size() == 1) {
    fault(current_, site,
          "bulk copy between blocks in a launch without clusters: an illegal instruction on a GPU");
  }
  const Location place = locate(to, site), counter = locate(mbarrier, site);
  if (&place.block != &counter.block) {
    fault(current_, site,
          fmt::format("bulk copy to shared address {}, which completes at an mbarrier of another block",
                      place.block.shared_.text_of(place.address)));
  }
  const ClusterCopies::Source source{&shared_, from, rank_};
  require(
      place.block.cluster_copies_.copy(current_number(), place.address, source, bytes, counter.address, site),
      site);
}

void Block::tensor_load_multicast(unsigned to, const TensorMap& map, const int* box, unsigned mbarrier,
                                  unsigned blocks, Site site) {
  if (blocks == 0 || blocks >> cluster_.size() != 0)
    fault(
        current_, site,
        fmt::format("multicast to blocks {:#x}, must be some of the cluster's {}", blocks, cluster_.size()));
  BulkMemory from;
  require(BulkCopies::read_map(map, box, from), site);
  for (int rank = 0; rank < cluster_.size(); ++rank) {
    if ((blocks >> rank & 1) == 0) continue;
    require(require_alive(rank, to, site).copies_.load(current_number(), to, from, mbarrier, site), site);
  }
}

}  // namespace fa2::interpreter
