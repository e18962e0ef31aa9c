#include "float_tensor.h"

#include <core/float_bits.h>
#include <doctest/doctest.h>

#include <bit>
#include <cstdint>

namespace fa2::test {
namespace {

constexpr std::uint32_t kPattern = 0xa5a5a5a5;

std::vector<std::uint32_t> blank(const Layout& layout) {
  return std::vector<std::uint32_t>(static_cast<std::size_t>(layout.total), kPattern);
}

/// Calls body(entry, head, row) for these rows of every head.
template <class Body>
void for_each_of(const SequenceRowsList& rows, std::int64_t heads, const Body& body) {
  for (const auto& [entry, begin, count] : rows)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t r = begin; r < begin + count; ++r) body(entry, h, r);
}

}  // namespace

FloatTensor::FloatTensor(const Layout& layout)
    : layout_(layout), buffer_(static_cast<std::size_t>(layout.total) * sizeof(float)) {
  buffer_.upload(blank(layout).data(), buffer_.size());
}

void* FloatTensor::data() const {
  return static_cast<float*>(buffer_.data()) + layout_.first;
}

std::vector<float> FloatTensor::rows(const SequenceRowsList& rows) const {
  std::vector<std::uint32_t> image = downloaded<std::uint32_t>(buffer_);
  std::vector<float> values;
  for_each_of(rows, layout_.shape.heads, [&](std::int64_t entry, std::int64_t head, std::int64_t row) {
    const TensorStrides& s = layout_.strides;
    auto at = image.begin() + layout_.first + entry * s.batch + head * s.head + row * s.row;
    for (std::int64_t d = 0; d < layout_.shape.dim; ++d, ++at) {
      values.push_back(std::bit_cast<float>(*at));
      *at = kPattern;
    }
  });
  CHECK(image == blank(layout_));
  return values;
}

void expect_unrounded(const FloatTensor& tensor, const reference::Tensor& halves, DType dtype,
                      const SequenceRowsList& rows) {
  const std::vector<float> values = tensor.rows(rows);
  std::vector<std::uint16_t> expected, rounded;
  for_each_of(rows, halves.heads, [&](std::int64_t entry, std::int64_t head, std::int64_t row) {
    for (std::int64_t d = 0; d < halves.dim; ++d)
      expected.push_back(to_bits(halves.at(entry, head, row, d), dtype));
  });
  std::size_t exact = 0;
  for (const float value : values) {
    rounded.push_back(to_bits(value, dtype));
    exact += from_bits(rounded.back(), dtype) == value;
  }
  CHECK(rounded == expected);
  CHECK((values.empty() || exact < values.size()));
}

}  // namespace fa2::test
