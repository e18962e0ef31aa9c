// Positions of queries that are two pieces of a longer sequence.
#pragma once

#include <fa2/args.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace fa2::test {

/// Returns pieces for sequences of these lengths: every kind of border in turn, then random ones.
inline QueryPieces pieces_of(unsigned seed, std::int64_t queries, std::int64_t keys, std::int64_t unit = 1) {
  std::mt19937 random(seed);
  const auto down = [&](std::int64_t value) { return (value < 0 ? value - unit + 1 : value) / unit * unit; };
  const auto between = [&](std::int64_t least, std::int64_t most) {
    return std::clamp(down(std::uniform_int_distribution<std::int64_t>(least, std::max(least, most))(random)),
                      down(least), std::max(down(least), most));
  };
  const std::int64_t end = down(keys - queries), half = down(queries / 2);
  switch (seed % 8) {
    case 0:
      return {.split = half,
              .first = 0,
              .second = std::max<std::int64_t>(end, 0)};  // the first and the last chunk
    case 1:
      return {.split = 0, .first = std::min(down(-keys), end), .second = end};  // only the second piece
    case 2:
      return {.split = queries, .first = end, .second = down(keys)};  // only the first piece
    case 3:
      return {.split = half,
              .first = down(-queries),
              .second = down(keys / 3)};  // the first piece stands before all keys
    case 4:
      return {.split = down(queries / 3),
              .first = down(keys / 2),
              .second = down(keys + 40)};  // the second one behind
    default: {
      const std::int64_t first = between(-queries / 3, keys / 2);
      return {.split = between(0, queries), .first = first, .second = first + between(0, keys / 2)};
    }
  }
}

/// Returns the pieces of rank `rank` of `ranks`, of a sequence of 2 `ranks` chunks.
inline QueryPieces zigzag(std::int64_t rank, std::int64_t ranks, std::int64_t chunk) {
  return {.split = chunk, .first = rank * chunk, .second = (2 * ranks - 2 - rank) * chunk};
}

}  // namespace fa2::test
