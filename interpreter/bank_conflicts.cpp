// Shared memory has 32 banks of 4 bytes; 128 bytes of an instruction are served together.
#include <interpreter/bank_conflicts.h>

#include <algorithm>

namespace fa2::interpreter {

void BankConflicts::note_plain(int thread, unsigned address, int bytes, Site site) {
  Line& line = warps_[static_cast<std::size_t>(thread / 32)][{site.file, site.line}];
  line.bytes = bytes;
  line.lanes[thread % 32].push_back(address);
}

void BankConflicts::count_plain(int warp) {
  Lines& lines = warps_[static_cast<std::size_t>(warp)];
  for (const auto& [site, line] : lines) {
    const int together = std::min(32, 128 / line.bytes);
    std::size_t rounds = 0;
    for (const auto& lane : line.lanes) rounds = std::max(rounds, lane.size());
    for (std::size_t round = 0; round < rounds; ++round) {
      for (int first = 0; first < 32; first += together) {
        unsigned addresses[32];
        int size = 0;
        for (int lane = first; lane < first + together; ++lane) {
          if (round < line.lanes[lane].size()) addresses[size++] = line.lanes[lane][round];
        }
        count(addresses, size, line.bytes, Site(site.first, site.second));
      }
    }
  }
  lines.clear();
}

void BankConflicts::count(const unsigned* addresses, int count, int bytes, Site site) {
  if (count == 0) return;
  constexpr std::size_t kBanks = 32;
  std::vector<unsigned> words;
  words.reserve(4 * kBanks);
  for (int i = 0; i < count; ++i) {
    for (unsigned at = addresses[i] / 4; at < (addresses[i] + static_cast<unsigned>(bytes) + 3) / 4; ++at)
      words.push_back(at);
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  unsigned in_bank[kBanks] = {};
  for (const unsigned word : words) ++in_bank[word % kBanks];
  BankCount& sum = counts_[{site.file, site.line}];
  sum.wavefronts += *std::max_element(std::begin(in_bank), std::end(in_bank));
  sum.least += (words.size() + kBanks - 1) / kBanks;
}

}  // namespace fa2::interpreter
