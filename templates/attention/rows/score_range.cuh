// Integers of a text as ranges, so that one evaluation says what the text of a mask shows of a whole block of positions.
#pragma once

#include "attention/common/captured.cuh"
#include "attention/common/score_functions.cuh"
#include "ptx/barrier.cuh"

namespace fa2::score {

/// The least and the greatest value that an integer may have. Conditions are 0 or 1. An operation gives a range that holds all of its
/// results, and perhaps others.
struct Range {
  static constexpr i64 kLeastInt = -2147483648LL, kMostInt = 2147483647;

  i64 least;
  i64 most;

  Range() = default;
  FA2_DEVICE Range(i64 constant) : least(constant), most(constant) {}  // NOLINT: a constant is a range
  FA2_DEVICE Range(i64 from, i64 to) : least(from), most(to) {}

  FA2_DEVICE static Range unknown() { return {-9223372036854775807LL - 1, 9223372036854775807LL}; }
  FA2_DEVICE static Range condition(bool never, bool always) { return {always ? 1 : 0, never ? 0 : 1}; }

  FA2_DEVICE bool is_constant() const { return least == most; }
  FA2_DEVICE bool is_int() const { return least >= kLeastInt && most <= kMostInt; }
  FA2_DEVICE bool is_zero() const { return least == 0 && most == 0; }
  FA2_DEVICE bool has_zero() const { return least <= 0 && most >= 0; }
};

FA2_DEVICE i64 smaller(i64 a, i64 b) {
  return a < b ? a : b;
}
FA2_DEVICE i64 larger(i64 a, i64 b) {
  return a > b ? a : b;
}

/// Returns the results of an operation that is monotone in each operand. Those that an int would not hold are unknown.
template <class Operation>
FA2_DEVICE Range of_corners(Range a, Range b, const Operation& operation) {
  if (!a.is_int() || !b.is_int()) return Range::unknown();
  const i64 w = operation(a.least, b.least), x = operation(a.least, b.most);
  const i64 y = operation(a.most, b.least), z = operation(a.most, b.most);
  const Range range{smaller(smaller(w, x), smaller(y, z)), larger(larger(w, x), larger(y, z))};
  return range.is_int() ? range : Range::unknown();
}

FA2_DEVICE Range operator+(Range a, Range b) {
  return of_corners(a, b, [](i64 x, i64 y) { return x + y; });
}
FA2_DEVICE Range operator-(Range a, Range b) {
  return of_corners(a, b, [](i64 x, i64 y) { return x - y; });
}
FA2_DEVICE Range operator+(Range a) {
  return a;
}
FA2_DEVICE Range operator-(Range a) {
  return Range(0) - a;
}
FA2_DEVICE Range operator*(Range a, Range b) {
  return of_corners(a, b, [](i64 x, i64 y) { return x * y; });
}
FA2_DEVICE Range operator/(Range a, Range b) {
  if (b.has_zero()) return Range::unknown();
  return of_corners(a, b, [](i64 x, i64 y) { return x / y; });
}
/// Has a remainder's own range only of one quotient and a constant.
FA2_DEVICE Range operator%(Range a, Range b) {
  if (!a.is_int() || !b.is_constant() || b.least <= 0) return Range::unknown();
  const i64 size = b.least;
  if (a.least / size == a.most / size && (a.least >= 0) == (a.most >= 0))
    return {a.least % size, a.most % size};
  return {a.least < 0 ? 1 - size : 0, a.most > 0 ? size - 1 : 0};
}
FA2_DEVICE Range operator<<(Range a, Range bits) {
  if (bits.least < 0 || bits.most > 31) return Range::unknown();
  return of_corners(a, bits, [](i64 x, i64 n) { return x * (1LL << n); });
}
FA2_DEVICE Range operator>>(Range a, Range bits) {
  if (bits.least < 0 || bits.most > 31) return Range::unknown();
  return of_corners(a, bits, [](i64 x, i64 n) { return x >> n; });
}
FA2_DEVICE Range operator~(Range a) {
  return Range(-1) - a;
}
/// Has a range of its own for low bits, as a % of a power of two has them, and for numbers that are not negative.
FA2_DEVICE Range operator&(Range a, Range b) {
  if (a.is_constant() && b.is_constant()) return a.least & b.least;
  if (!a.is_int() || !b.is_int()) return Range::unknown();
  const Range bits = b.is_constant() ? b : a, number = b.is_constant() ? a : b;
  const i64 size = bits.least + 1;
  const bool are_low_bits = bits.is_constant() && bits.least > 0 && (bits.least & size) == 0;
  if (are_low_bits && number.least >= 0) return number % size;
  if (a.least >= 0 && b.least >= 0) return {0, smaller(a.most, b.most)};
  return a.least >= 0 ? Range{0, a.most} : b.least >= 0 ? Range{0, b.most} : Range::unknown();
}
/// Returns the least number of ones that has all bits of a number that is not negative.
FA2_DEVICE i64 all_bits_of(i64 x) {
  for (int shift = 1; shift < 32; shift *= 2) x |= x >> shift;
  return x;
}
FA2_DEVICE Range operator|(Range a, Range b) {
  if (a.is_constant() && b.is_constant()) return a.least | b.least;
  if (!a.is_int() || !b.is_int() || a.least < 0 || b.least < 0) return Range::unknown();
  return {larger(a.least, b.least), all_bits_of(a.most | b.most)};
}
FA2_DEVICE Range operator^(Range a, Range b) {
  if (a.is_constant() && b.is_constant()) return a.least ^ b.least;
  if (!a.is_int() || !b.is_int() || a.least < 0 || b.least < 0) return Range::unknown();
  return {0, all_bits_of(a.most | b.most)};
}

FA2_DEVICE Range operator<(Range a, Range b) {
  return Range::condition(a.least >= b.most, a.most < b.least);
}
FA2_DEVICE Range operator>(Range a, Range b) {
  return b < a;
}
FA2_DEVICE Range operator!(Range a) {
  return Range::condition(!a.has_zero(), a.is_zero());
}
FA2_DEVICE Range operator<=(Range a, Range b) {
  return !(b < a);
}
FA2_DEVICE Range operator>=(Range a, Range b) {
  return !(a < b);
}
FA2_DEVICE Range operator==(Range a, Range b) {
  return Range::condition(a.most < b.least || b.most < a.least,
                          a.is_constant() && b.is_constant() && a.least == b.least);
}
FA2_DEVICE Range operator!=(Range a, Range b) {
  return !(a == b);
}
FA2_DEVICE Range operator&&(Range a, Range b) {
  return Range::condition(a.is_zero() || b.is_zero(), !a.has_zero() && !b.has_zero());
}
FA2_DEVICE Range operator||(Range a, Range b) {
  return Range::condition(a.is_zero() && b.is_zero(), !a.has_zero() || !b.has_zero());
}

FA2_DEVICE Range min(Range a, Range b) {
  return {smaller(a.least, b.least), smaller(a.most, b.most)};
}
FA2_DEVICE Range max(Range a, Range b) {
  return {larger(a.least, b.least), larger(a.most, b.most)};
}
FA2_DEVICE Range abs(Range a) {
  if (!a.is_int()) return Range::unknown();
  const Range size = max(a, -a);
  return a.has_zero() ? Range{0, size.most} : size;
}
FA2_DEVICE Range floor_div(Range a, Range b) {
  if (b.least <= 0) return Range::unknown();
  return of_corners(a, b, [](i64 x, i64 y) { return x / y - (x % y < 0 ? 1 : 0); });
}
FA2_DEVICE Range remainder(Range a, Range b) {
  if (!b.is_constant() || b.least <= 0) return Range::unknown();
  const Range quotient = floor_div(a, b);
  return quotient.is_constant() && quotient.is_int() ? a - quotient * b : Range{0, b.least - 1};
}
FA2_DEVICE Range select(Range condition, Range a, Range b) {
  if (!condition.has_zero()) return a;
  if (condition.is_zero()) return b;
  return {smaller(a.least, b.least), larger(a.most, b.most)};
}

/// The positions of a block of scores.
struct RangePosition {
  Range batch, head, query, key, queries, keys;
};

/// How many lanes find the range of a block together. Other lanes of the warp do so for other blocks.
constexpr int kLanesOfRange = 8;

FA2_DEVICE int of_other_lane(int x, int lane_mask) {
  return static_cast<int>(ptx::shfl_bfly(static_cast<u32>(x), lane_mask));
}
FA2_DEVICE i64 of_other_lane(i64 x, int lane_mask) {
  const auto bits = static_cast<u64>(x);
  const u32 low = ptx::shfl_bfly(static_cast<u32>(bits), lane_mask);
  const u32 high = ptx::shfl_bfly(static_cast<u32>(bits >> 32), lane_mask);
  return static_cast<i64>(static_cast<u64>(high) << 32 | low);
}
/// Returns the smallest number of this lane's block.
template <class Number>
FA2_DEVICE Number smallest_of_block(Number x) {
  FA2_UNROLL
  for (int mask = kLanesOfRange / 2; mask > 0; mask /= 2) {
    const Number other = of_other_lane(x, mask);
    x = other < x ? other : x;
  }
  return x;
}

/// Return an element as an integer with a sign.
FA2_DEVICE int signed_integer(int element) {
  return element;
}
FA2_DEVICE int signed_integer(u32 element) {
  return static_cast<int>(element);
}
FA2_DEVICE i64 signed_integer(i64 element) {
  return element;
}

/// Returns the range of the elements of a tensor at all indices in ranges, which the lanes of a block have alike. It is unknown if they
/// are too many, or an index may lie outside. All lanes of the warp must call it.
template <class Element, class... Index>
FA2_DEVICE Range elements_in(const CaptureParams& capture, Index... index) {
  using Number = decltype(signed_integer(element_at<Element>(capture, 0)));
  constexpr i64 kMostElements = 512;
  i64 count = 1;
  int dimension = 0;
  const auto add_dimension = [&](Range of) {
    const bool is_inside = of.least >= 0 && of.least <= of.most && of.most < capture.sizes[dimension];
    ++dimension;
    count = is_inside && count <= kMostElements ? count * (of.most - of.least + 1) : kMostElements + 1;
  };
  (add_dimension(index), ...);
  const bool is_known = count <= kMostElements;
  const int last = is_known ? static_cast<int>(count) - 1 : -1, lane = ptx::lane_index() % kLanesOfRange;
  Number least = 0, most = 0;
  for (int first = 0; first <= last; first += kLanesOfRange) {
    int rest = first + lane < last ? first + lane : last;
    const auto next = [&](Range of) {
      const int length = static_cast<int>(of.most - of.least + 1), place = rest % length;
      rest /= length;
      return static_cast<int>(of.least) + place;
    };
    const Number value = signed_integer(element_at<Element>(capture, offset_in(capture, next(index)...)));
    least = first == 0 || value < least ? value : least;
    most = first == 0 || value > most ? value : most;
  }
  least = smallest_of_block(least), most = ~smallest_of_block(~most);
  return is_known ? Range{least, most} : Range::unknown();
}

}  // namespace fa2::score
