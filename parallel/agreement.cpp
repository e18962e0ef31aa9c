// Texts gathered by two exchanges: lengths, then texts of equal length.
#include <core/text.h>
#include <fmt/format.h>
#include <parallel/agreement.h>
#include <parallel/request_check.h>

#include <algorithm>

namespace fa2 {

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine) {
  const std::size_t ranks = static_cast<std::size_t>(communicator.size());
  const std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(ranks);
  communicator.all_gather(&length, sizeof length, lengths.data());
  const std::size_t most = std::ranges::max(lengths);
  std::string padded = mine, all(ranks * most, '\0');
  padded.resize(most);
  communicator.all_gather(padded.data(), most, all.data());
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank) texts.push_back(all.substr(rank * most, lengths[rank]));
  return texts;
}

std::string broadcast_text(Communicator& communicator, const std::string& mine, int root) {
  return gather_texts(communicator, communicator.rank() == root ? mine : "").at(root);
}

void require_same(Communicator& communicator, const std::string& name, const std::string& mine) {
  const std::vector<std::string> texts = gather_texts(communicator, mine);
  RequestCheck found;
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    found.add(fmt::format("{} of rank {}", name, rank), in_quotes(texts[rank]),
              fmt::format("must equal rank 0's, {}", in_quotes(texts[0])));
  }
  found.require_none();
}

}  // namespace fa2
