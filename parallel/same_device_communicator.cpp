// Three messages of host memory for each transfer: an offer, a receipt, and its confirmation. After the last one, both events may be
// recorded again.
#include <fmt/format.h>
#include <parallel/same_device_communicator.h>
#include <runtime/device.h>

#include <utility>
#include <vector>

namespace fa2 {
namespace {

/// Exchanges an element per transfer, from its sender to its receiver, or with `back` the other way.
template <class Element>
void tell(Communicator& host, const Transfer* transfers, std::vector<Element>& elements, bool back) {
  std::vector<Transfer> group;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const bool gives = transfers[i].sends() != back;
    group.push_back({gives ? Transfer::Kind::send : Transfer::Kind::receive, transfers[i].peer, &elements[i],
                     sizeof(Element)});
  }
  host.wait(host.exchange(group.data(), group.size(), nullptr));
}

}  // namespace

SameDeviceCommunicator::SameDeviceCommunicator(Communicator& host, int device)
    : host_(host), device_(device) {
  const ScopedContext context(device);
  events_ = std::make_unique<Events>();
}

SameDeviceCommunicator::~SameDeviceCommunicator() {
  const ScopedContext context(device_);
  events_.reset();
}

std::uint64_t SameDeviceCommunicator::exchange(const Transfer* transfers, std::size_t count, Stream stream) {
  if (auto found = violations(*this, transfers, count); !found.empty())
    throw InvalidRequest(std::move(found));
  const ScopedContext context(device_);
  events_->ready.record(stream);
  std::vector<Offer> offers(count);
  for (std::size_t i = 0; i < count; ++i)
    if (transfers[i].sends()) offers[i] = {transfers[i].data, transfers[i].bytes, &events_->ready};
  tell(host_, transfers, offers, false);
  for (std::size_t i = 0; i < count; ++i)
    if (!transfers[i].sends()) copy(transfers[i], offers[i], stream);
  events_->done.record(stream);
  std::vector<Receipt> receipts(count, Receipt{&events_->done});
  tell(host_, transfers, receipts, true);
  for (std::size_t i = 0; i < count; ++i)
    if (transfers[i].sends()) receipts[i].done->hold(stream);
  std::vector<char> confirmations(count);
  tell(host_, transfers, confirmations, false);
  return exchanges_++;
}

void SameDeviceCommunicator::copy(const Transfer& transfer, const Offer& offer, Stream stream) const {
  if (offer.bytes != transfer.bytes)
    throw CommunicationError(
        fmt::format("rank {}: rank {} sends {} bytes, and rank {} receives {}, must be equal: list "
                    "transfers in the same order",
                    rank(), transfer.peer, offer.bytes, rank(), transfer.bytes),
        rank());
  offer.ready->hold(stream);
  copy_on_stream(transfer.data, offer.data, offer.bytes, stream);
}

}  // namespace fa2
