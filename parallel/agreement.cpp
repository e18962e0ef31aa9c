// Texts gathered by two exchanges: lengths, then texts of equal length.
#include <core/text.h>
#include <fmt/format.h>
#include <parallel/agreement.h>
#include <parallel/request_check.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace fa2 {
namespace {

constexpr char kSeparator = '\0';

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == kSeparator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

}  // namespace

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
  std::string told;
  for (const Violation& violation : found) told += (told.empty() ? "" : "; ") + to_string(violation);
  for (const Statement& statement : mine) told += kSeparator + statement.text;
  std::vector<std::vector<std::string>> all;  // of each rank: broken rules, then statements
  for (const std::string& texts : gather_texts(communicator, told)) all.push_back(parts_of(texts));
  RequestCheck check;
  check.add(std::move(found));
  for (std::size_t rank = 0; rank < all.size() && check.empty(); ++rank)
    if (!all[rank][0].empty())
      check.add(fmt::format("request of rank {}", rank), in_quotes(all[rank][0]), "must break no rule");
  check.require_none();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (all[rank].at(i + 1) == all[0].at(i + 1)) continue;
      check.add(fmt::format("{} of rank {}", mine[i].name, rank), in_quotes(all[rank][i + 1]),
                fmt::format("must equal rank 0's, {}", in_quotes(all[0][i + 1])));
    }
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
