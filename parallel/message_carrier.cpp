// Receivers tell senders once, when a plan is made, where each message goes.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <parallel/agreement.h>
#include <parallel/message_carrier.h>
#include <planning/put_messages.h>

#include <algorithm>
#include <cstring>
#include <queue>
#include <string>
#include <utility>

namespace fa2 {
namespace {

/// Copies of several rows have at most so many bytes from row to row (CU_DEVICE_ATTRIBUTE_MAX_PITCH of all GPUs).
constexpr std::int64_t kMostPitch = INT32_MAX;

/// Where a message goes in its receiver's window.
struct Place {
  std::int32_t from = 0;
  std::int32_t exchange = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

std::string places_of(const MessageLists& exchanges, const std::byte* window) {
  std::string text;
  for (std::size_t exchange = 0; exchange < exchanges.size(); ++exchange) {
    for (const Transfer& transfer : exchanges[exchange]) {
      if (transfer.sends()) continue;
      const Place place{transfer.peer, static_cast<std::int32_t>(exchange),
                        static_cast<std::uint64_t>(static_cast<std::byte*>(transfer.data) - window),
                        transfer.bytes};
      text.append(reinterpret_cast<const char*>(&place), sizeof place);
    }
  }
  return text;
}

/// Where one rank's messages from `sender` go, in order.
class Places {
 public:
  Places(const std::string& text, int sender) : sender_(sender) {
    for (std::size_t at = 0; at < text.size(); at += sizeof(Place)) {
      Place place;
      std::memcpy(&place, text.data() + at, sizeof place);
      if (place.from == sender) places_.push(place);
    }
  }

  /// Returns the offset of the sender's next message. @throws CommunicationError if the receiver expects another one.
  std::uint64_t next(std::size_t exchange, std::size_t bytes) {
    const Place place = places_.empty() ? Place{} : places_.front();
    if (places_.empty() || place.exchange != static_cast<std::int32_t>(exchange) || place.bytes != bytes)
      throw CommunicationError(
          fmt::format("rank {} sends {} bytes in exchange {}, and the receiver expects {} in "
                      "exchange {}: list transfers in the same order",
                      sender_, bytes, exchange, place.bytes, place.exchange),
          sender_);
    places_.pop();
    return place.offset;
  }

 private:
  int sender_;
  std::queue<Place> places_;
};

}  // namespace

void MessageCarrier::connect(std::shared_ptr<PeerWindow> window, const std::array<MessageLists, 2>& passes,
                             const std::shared_ptr<const Kernel>& put) {
  window_ = std::move(window);
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    passes_[pass] = prepared(passes[pass], !put);
    if (!put) continue;
    for (Prepared& exchange : passes_[pass])
      exchange.put = std::make_shared<const Plan>(plan_put(put_params(exchange), put));
  }
}

/// Peers in the order of their distance, so that ranks write to different ones at a time.
PutParams MessageCarrier::put_params(const Prepared& exchange) const {
  PutParams params{};
  int messages = 0;
  for (int distance = 0; distance < size(); ++distance) {
    const int rank_of_peer = (rank() + distance) % size();
    PutPeer& peer = params.peers[params.peer_count++];
    peer = window_->flags_with(rank_of_peer);
    peer.sends = std::ranges::find(exchange.from, rank_of_peer) != exchange.from.end();
    const auto delivery = std::ranges::find(exchange.deliveries, rank_of_peer, &Delivery::to);
    if (delivery == exchange.deliveries.end()) continue;
    for (const CopiedRows& copy : delivery->copies)
      params.messages[messages++] = {copy.from, copy.to, static_cast<long long>(copy.bytes)};
    peer.messages = static_cast<int>(delivery->copies.size());
  }
  return params;
}

/// `by_rows`: whether copies may have several rows.
std::vector<MessageCarrier::Prepared> MessageCarrier::prepared(const MessageLists& exchanges,
                                                               bool by_rows) const {
  std::vector<Places> of_ranks;
  for (const std::string& text : gather_texts(communicator_, places_of(exchanges, window_->data())))
    of_ranks.emplace_back(text, rank());
  std::vector<Prepared> made(exchanges.size());
  for (std::size_t number = 0; number < exchanges.size(); ++number) {
    Prepared& exchange = made[number];
    for (const Transfer& transfer : exchanges[number]) {
      const int peer = transfer.peer;
      if (!transfer.sends()) {
        if (transfer.bytes != 0 && peer != rank() &&
            std::ranges::find(exchange.from, peer) == exchange.from.end())
          exchange.from.push_back(peer);
        continue;
      }
      std::byte* const to =
          window_->data_of(peer) + of_ranks[static_cast<std::size_t>(peer)].next(number, transfer.bytes);
      if (transfer.bytes == 0) continue;
      auto delivery = std::ranges::find(exchange.deliveries, peer, &Delivery::to);
      if (delivery == exchange.deliveries.end()) delivery = exchange.deliveries.insert(delivery, {peer, {}});
      const CopiedRows copy{to, static_cast<const std::byte*>(transfer.data), transfer.bytes};
      std::vector<CopiedRows>& copies = delivery->copies;
      if (copies.empty() || !extend(copies.back(), copy, by_rows)) copies.push_back(copy);
    }
  }
  return made;
}

/// Makes `next` part of `last` if it goes on where that ended, or is its next row. Returns whether it did.
bool MessageCarrier::extend(CopiedRows& last, const CopiedRows& next, bool by_rows) {
  if (last.rows == 1 && last.to + last.bytes == next.to && last.from + last.bytes == next.from) {
    last.bytes += next.bytes;
    return true;
  }
  if (!by_rows || next.bytes != last.bytes) return false;
  const std::int64_t to = next.to - last.to, from = next.from - last.from;
  if (last.rows == 1) {
    const auto bytes = static_cast<std::int64_t>(last.bytes);
    if (std::min(to, from) < bytes || std::max(to, from) > kMostPitch) return false;
    last.to_pitch = to, last.from_pitch = from;
  }
  if (to != last.rows * last.to_pitch || from != last.rows * last.from_pitch) return false;
  ++last.rows;
  return true;
}

void MessageCarrier::begin(Pass pass, Stream stream) {
  communicator_.check();
  window_->begin_run(stream);
  next_ = passes_[static_cast<std::size_t>(pass)].begin();
}

void MessageCarrier::copy_next(Stream stream) {
  const Prepared& exchange = *next_++;
  if (exchange.put) return launch(*exchange.put, exchange, {}, nullptr, stream);
  for (const int peer : exchange.from) window_->allow(peer, stream);
  for (const Delivery& delivery : exchange.deliveries) {
    if (delivery.to != rank()) window_->await_allowed(delivery.to, stream);
    for (const CopiedRows& copy : delivery.copies) copy_on_stream(copy, stream);
    if (delivery.to != rank()) window_->deliver(delivery.to, stream);
  }
  for (const int peer : exchange.from) window_->await_delivered(peer, stream);
}

}  // namespace fa2
