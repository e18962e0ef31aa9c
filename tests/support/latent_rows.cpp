// The format is written once more here, by FlashMLA's description.
#include "latent_rows.h"

#include <core/float_bits.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace fa2::test {
namespace {

constexpr std::int64_t kGroups = 4, kGroupColumns = 128, kFactors = 512, kRotated = 528, kRotatedColumns = 64;

/// Four bits, so that their products with codes are exact in bfloat16, to which some kernels round.
float factor_of(std::int64_t row, std::int64_t group) {
  return std::ldexp(1 + 0.125f * static_cast<float>((3 * row + group) % 8), static_cast<int>(row % 5) - 2);
}

/// Rounds a group of columns to codes in `to`, and to what they stand for.
void encode(float* columns, float factor, std::uint8_t* to) {
  for (std::int64_t d = 0; d < kGroupColumns; ++d) {
    to[d] = to_e4m3(columns[d] / factor);
    columns[d] = from_bits(to[d], ElementType::e4m3) * factor;
  }
}

}  // namespace

void send_latents(reference::Tensor& keys, const Layout& layout, DeviceBuffer& buffer) {
  std::vector<std::uint8_t> image(static_cast<std::size_t>(layout.total), 0xff);
  for_each_row(layout, [&](auto b, auto h, auto r, auto offset) {
    float* const row = &keys.at(b, h, r, 0);
    std::uint8_t* const to = image.data() + offset;
    for (std::int64_t group = 0; group < kGroups; ++group) {
      const float factor = factor_of(r, group);
      encode(row + group * kGroupColumns, factor, to + group * kGroupColumns);
      std::memcpy(to + kFactors + 4 * group, &factor, sizeof factor);
    }
    for (std::int64_t d = 0; d < kRotatedColumns; ++d) {
      float& value = row[kGroups * kGroupColumns + d];
      const std::uint16_t bits = to_bits(value, ElementType::bf16);
      std::memcpy(to + kRotated + 2 * d, &bits, sizeof bits);
      value = from_bits(bits, ElementType::bf16);
    }
  });
  buffer.upload(image.data(), buffer.size());
}

}  // namespace fa2::test
