// One lock for all messages: tests exchange little, and a simple order is easy to trust.
#include <fmt/format.h>
#include <parallel/mailboxes.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

namespace fa2 {
namespace {

constexpr int kPoison = 0xff;

std::uint64_t hash_of(const Transfer& transfer) {
  if (transfer.bytes == 0) return 0;
  return std::hash<std::string_view>{}({static_cast<const char*>(transfer.data), transfer.bytes});
}

bool is_poisoned(const Transfer& transfer) {
  const auto* bytes = static_cast<const unsigned char*>(transfer.data);
  return std::all_of(bytes, bytes + transfer.bytes, [](unsigned char byte) { return byte == kPoison; });
}

/// Returns for example "rank 1 to send 64 bytes (exchange 2 of rank 0)".
std::string text_of_wanted(const MessageHalf& half) {
  return fmt::format("rank {} to {} {} bytes (exchange {} of rank {})", half.transfer.peer,
                     half.transfer.sends() ? "receive" : "send", half.transfer.bytes, half.exchange,
                     half.rank);
}

}  // namespace

Mailboxes::Mailboxes(int ranks, const ThreadGroupOptions& options) : options_(options), sides_(ranks) {}

void Mailboxes::require_working(int rank) const {
  if (!failure_.empty()) throw CommunicationError(fmt::format("rank {}: {}", rank, failure_), rank);
}

void Mailboxes::throw_failure(int rank) {
  const std::lock_guard lock(mutex_);
  require_working(rank);
}

void Mailboxes::fail_locked(const std::string& message) {
  if (failure_.empty()) failure_ = message;
  changed_.notify_all();
}

void Mailboxes::fail(const std::string& message) {
  const std::lock_guard lock(mutex_);
  fail_locked(message);
}

void Mailboxes::set_ended(int rank, bool ended) {
  const std::lock_guard lock(mutex_);
  sides_[rank].ended = ended;
  changed_.notify_all();
}

std::uint64_t Mailboxes::post(int rank, const Transfer* transfers, std::size_t count) {
  const std::lock_guard lock(mutex_);
  require_working(rank);
  Side& side = sides_[rank];
  const std::uint64_t number = side.first + side.exchanges.size();
  side.exchanges.emplace_back();
  for (std::size_t i = 0; i < count; ++i) {
    const Transfer& transfer = transfers[i];
    const auto half = std::make_shared<MessageHalf>(MessageHalf{transfer, rank, number, false, 0, {}});
    side.exchanges.back().push_back(half);
    if (transfer.sends()) {
      half->hash = hash_of(transfer);
      boxes_[{rank, transfer.peer}].sends.push_back(half);
    } else {
      if (options_.late && transfer.bytes != 0) std::memset(transfer.data, kPoison, transfer.bytes);
      boxes_[{transfer.peer, rank}].receives.push_back(half);
    }
  }
  // After all are poisoned, because a rank may send to itself.
  for (std::size_t i = 0; i < count; ++i) {
    const int peer = transfers[i].peer;
    match(boxes_[transfers[i].sends() ? std::pair(rank, peer) : std::pair(peer, rank)]);
  }
  require_working(rank);
  changed_.notify_all();
  return number;
}

void Mailboxes::match(Box& box) {
  while (!box.sends.empty() && !box.receives.empty()) {
    const std::shared_ptr<MessageHalf> send = box.sends.front(), receive = box.receives.front();
    box.sends.pop_front();
    box.receives.pop_front();
    if (send->transfer.bytes != receive->transfer.bytes)
      return fail_locked(
          fmt::format("rank {} sends {} bytes to rank {} (exchange {}), which receives {} "
                      "(exchange {}), must be equal: list transfers in the same order",
                      send->rank, send->transfer.bytes, receive->rank, send->exchange,
                      receive->transfer.bytes, receive->exchange));
    deliver(*send, *receive);
    send->matched = receive->matched = true;
  }
}

void Mailboxes::deliver(const MessageHalf& send, MessageHalf& receive) {
  const auto* from = static_cast<const std::byte*>(send.transfer.data);
  if (options_.late)
    receive.payload.assign(from, from + send.transfer.bytes);
  else if (send.transfer.bytes != 0)
    std::memmove(receive.transfer.data, from, send.transfer.bytes);
}

const MessageHalf* Mailboxes::unmatched(int rank, std::uint64_t number) const {
  const Side& side = sides_[rank];
  for (std::size_t i = 0; i < side.exchanges.size() && side.first + i <= number; ++i) {
    for (const auto& half : side.exchanges[i])
      if (!half->matched) return half.get();
  }
  return nullptr;
}

void Mailboxes::wait(int rank, std::uint64_t number) {
  std::unique_lock lock(mutex_);
  require_working(rank);
  Side& side = sides_[rank];
  const std::uint64_t end = side.first + side.exchanges.size();
  if (number < side.first || number >= end)
    throw InvalidRequest({{"exchange", std::to_string(number),
                           fmt::format("must be one of {}..{}, for which rank {} has not waited yet",
                                       side.first, static_cast<std::int64_t>(end) - 1, rank)}});
  const MessageHalf* missing = nullptr;
  const auto is_over = [&] {
    missing = unmatched(rank, number);
    return !failure_.empty() || missing == nullptr || sides_[missing->transfer.peer].ended;
  };
  side.waits = true;
  const bool in_time = changed_.wait_for(lock, options_.timeout, is_over);
  if (failure_.empty() && missing != nullptr)
    fail_locked(fmt::format("{}:{}",
                            in_time ? "a rank has ended too early"
                                    : fmt::format("no answer within {} ms", options_.timeout.count()),
                            who_waits()));
  side.waits = false;
  require_working(rank);
  for (; side.first <= number; ++side.first) {
    for (const auto& half : side.exchanges.front()) complete(*half);
    side.exchanges.pop_front();
  }
  require_working(rank);
}

void Mailboxes::complete(MessageHalf& half) {
  const Transfer& transfer = half.transfer;
  if (transfer.sends()) {
    if (hash_of(transfer) != half.hash)
      fail_locked(
          fmt::format("rank {} wrote to {} bytes that it was sending to rank {} (exchange {}), must wait "
                      "for the exchange first",
                      half.rank, transfer.bytes, transfer.peer, half.exchange));
    return;
  }
  if (!options_.late || transfer.bytes == 0) return;
  if (!is_poisoned(transfer))
    fail_locked(
        fmt::format("rank {} wrote to {} bytes that it was receiving from rank {} (exchange {}), must wait "
                    "for the exchange first",
                    half.rank, transfer.bytes, transfer.peer, half.exchange));
  std::memcpy(transfer.data, half.payload.data(), transfer.bytes);
}

std::string Mailboxes::who_waits() const {
  std::string text;
  for (int rank = 0; rank < ranks(); ++rank) {
    const Side& side = sides_[rank];
    const std::uint64_t posted = side.first + side.exchanges.size();
    const MessageHalf* missing = unmatched(rank, posted);
    if (side.ended)
      text += fmt::format("\n  rank {} has ended after {} exchanges", rank, posted);
    else if (!side.waits)
      text += fmt::format("\n  rank {} has enqueued {} exchanges, and does not wait", rank, posted);
    else if (missing != nullptr)
      text += fmt::format("\n  rank {} waits for {}", rank, text_of_wanted(*missing));
  }
  return text;
}

std::string Mailboxes::leftovers() {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const Side& side : sides_) {
    for (const auto& exchange : side.exchanges) {
      for (const auto& half : exchange) {
        if (!half->matched) text += fmt::format("\n  rank {} wants {}", half->rank, text_of_wanted(*half));
      }
    }
    if (!side.exchanges.empty())
      text += fmt::format("\n  rank {} has not waited for exchange {}", &side - sides_.data(), side.first);
  }
  return text;
}

}  // namespace fa2
