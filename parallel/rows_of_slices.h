// The rows of a tensor that has slices of the global stream one after the other.
#pragma once

#include <fa2/context_parallel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace fa2 {

class RowsOfSlices {
 public:
  /// `slices` must be in ascending order.
  explicit RowsOfSlices(std::vector<Slice> slices) : slices_(std::move(slices)), starts_{0} {
    for (const Slice& slice : slices_) starts_.push_back(starts_.back() + slice.size());
  }

  const std::vector<Slice>& slices() const { return slices_; }
  std::int64_t count() const { return starts_.back(); }  ///< returns the number of rows

  /// Returns the row of a token, which a slice must hold.
  std::int64_t of(std::int64_t token) const {
    const std::size_t i = first_after(token);
    return starts_[i] + token - slices_[i].begin;
  }

  /// Returns the parts of `tokens` that slices hold, in order.
  std::vector<Slice> within(const Slice& tokens) const {
    std::vector<Slice> parts;
    for (std::size_t i = first_after(tokens.begin); i < slices_.size() && slices_[i].begin < tokens.end; ++i)
      if (const Slice part{std::max(slices_[i].begin, tokens.begin), std::min(slices_[i].end, tokens.end)};
          part.begin < part.end)
        parts.push_back(part);
    return parts;
  }

 private:
  /// Returns the first slice that ends after `token`.
  std::size_t first_after(std::int64_t token) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(slices_, token, {}, &Slice::end) -
                                    slices_.begin());
  }

  std::vector<Slice> slices_;
  std::vector<std::int64_t> starts_;  ///< row of each slice, and the number of rows
};

}  // namespace fa2
