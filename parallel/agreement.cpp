// Texts gathered by two exchanges: lengths, then texts of equal length.
#include <core/text.h>
#include <fmt/format.h>
#include <parallel/agreement.h>
#include <parallel/request_check.h>

#include <algorithm>
#include <exception>
#include <utility>

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

void require_same(Communicator& communicator, const std::vector<Statement>& mine,
                  std::vector<Violation> found) {
  std::string broken;
  for (const Violation& violation : found) broken += (broken.empty() ? "" : "; ") + to_string(violation);
  const std::vector<std::string> rules = gather_texts(communicator, broken);
  RequestCheck check;
  check.add(std::move(found));
  for (std::size_t rank = 0; rank < rules.size() && check.empty(); ++rank)
    if (!rules[rank].empty())
      check.add(fmt::format("request of rank {}", rank), in_quotes(rules[rank]), "must break no rule");
  for (const Statement& statement : mine) {
    const std::vector<std::string> texts = gather_texts(communicator, statement.text);
    for (std::size_t rank = 1; rank < texts.size(); ++rank)
      if (texts[rank] != texts[0])
        check.add(fmt::format("{} of rank {}", statement.name, rank), in_quotes(texts[rank]),
                  fmt::format("must equal rank 0's, {}", in_quotes(texts[0])));
  }
  check.require_none();
}

void make_together(Communicator& communicator, const std::function<void()>& make) {
  std::exception_ptr failure;
  std::string message;
  try {
    make();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    message = error.what();
  }
  const std::vector<std::string> messages = gather_texts(communicator, message);
  if (failure) std::rethrow_exception(failure);
  for (std::size_t rank = 0; rank < messages.size(); ++rank)
    if (!messages[rank].empty())
      throw CommunicationError(fmt::format("rank {} has made no plan: {}", rank, messages[rank]),
                               static_cast<int>(rank));
}

}  // namespace fa2
