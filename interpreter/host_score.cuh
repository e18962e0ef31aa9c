// What texts of scores may name, in double precision, for functions of the host. Written apart from the kernels' functions, which it
// checks: nothing of templates/ is included.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace fa2::score {

using i64 = long long;

/// The position of a score, as fa2/score_text.h says.
struct Position {
  int batch, head, query, key, queries, keys;
};

/// fa2::ScoreCapture.
struct HostCapture {
  const void* data;
  double number;
  i64 sizes[4];
  i64 strides[4];
};

struct CapturedHalf {
  unsigned short bits;
  operator double() const {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31  ? (fraction == 0 ? std::numeric_limits<double>::infinity()
                                                         : std::numeric_limits<double>::quiet_NaN())
                        : exponent == 0 ? std::ldexp(fraction, -24)
                                        : std::ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 != 0 ? -size : size;
  }
};
struct CapturedBfloat16 {
  unsigned short bits;
  operator double() const {
    const unsigned wide = static_cast<unsigned>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
};

/// A tensor, called with an index per dimension, or with the position if it has an element per score. `Value`: what texts get of an element. An index outside reads the nearest element.
template <class Element, class Value>
struct CapturedTensor {
  const HostCapture& capture;

  template <class... Index>
  Value operator()(Index... index) const {
    i64 offset = 0;
    int dimension = 0;
    ((offset += within(static_cast<i64>(index), capture.sizes[dimension]) * capture.strides[dimension],
      ++dimension),
     ...);
    return static_cast<Value>(static_cast<const Element*>(capture.data)[offset]);
  }
  Value operator()(const Position& at) const { return (*this)(at.batch, at.head, at.query, at.key); }

  static i64 within(i64 index, i64 size) { return index < 0 ? 0 : index < size ? index : size - 1; }
};
template <class Value>
struct CapturedNumber {
  const HostCapture& capture;

  Value operator()() const { return static_cast<Value>(capture.number); }
};

/// A number, and its derivative with respect to the score.
struct Dual {
  double value, slope;

  Dual(double constant) : value(constant), slope(0) {}
  Dual(double number, double derivative) : value(number), slope(derivative) {}

  Dual operator-() const { return {-value, -slope}; }
  friend Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
  friend Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
  friend Dual operator*(Dual a, Dual b) { return {a.value * b.value, a.slope * b.value + a.value * b.slope}; }
  friend Dual operator/(Dual a, Dual b) {
    return {a.value / b.value, (a.slope * b.value - a.value * b.slope) / (b.value * b.value)};
  }
  Dual& operator+=(Dual b) { return *this = *this + b; }
  Dual& operator-=(Dual b) { return *this = *this - b; }
  Dual& operator*=(Dual b) { return *this = *this * b; }
  Dual& operator/=(Dual b) { return *this = *this / b; }
  friend bool operator<(Dual a, Dual b) { return a.value < b.value; }
  friend bool operator>(Dual a, Dual b) { return a.value > b.value; }
  friend bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
  friend bool operator>=(Dual a, Dual b) { return a.value >= b.value; }
  friend bool operator==(Dual a, Dual b) { return a.value == b.value; }
  friend bool operator!=(Dual a, Dual b) { return a.value != b.value; }
};

inline double infinity() {
  return std::numeric_limits<double>::infinity();
}
inline double nan() {
  return std::numeric_limits<double>::quiet_NaN();
}
template <class A, class B>
auto select(bool condition, A a, B b) {
  return condition ? a : b;
}

inline double exp(double x) {
  return std::exp(x);
}
inline double exp2(double x) {
  return std::exp2(x);
}
inline double log(double x) {
  return std::log(x);
}
inline double log2(double x) {
  return std::log2(x);
}
inline double log1p(double x) {
  return std::log1p(x);
}
inline double tanh(double x) {
  return std::tanh(x);
}
inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
inline double sin(double x) {
  return std::sin(x);
}
inline double cos(double x) {
  return std::cos(x);
}
inline double erf(double x) {
  return std::erf(x);
}
inline double sqrt(double x) {
  return std::sqrt(x);
}
inline double rsqrt(double x) {
  return 1 / std::sqrt(x);
}
inline double floor(double x) {
  return std::floor(x);
}
inline double ceil(double x) {
  return std::ceil(x);
}
inline double round(double x) {
  return std::nearbyint(x);
}
inline double trunc(double x) {
  return std::trunc(x);
}
inline double pow(double x, double y) {
  return std::pow(x, y);
}

/// Chain rule: f(x) with the derivative `slope` at x.
inline Dual chained(double value, double slope, Dual x) {
  return {value, slope * x.slope};
}
inline Dual exp(Dual x) {
  return chained(exp(x.value), exp(x.value), x);
}
inline Dual exp2(Dual x) {
  return chained(exp2(x.value), exp2(x.value) * std::log(2.0), x);
}
inline Dual log(Dual x) {
  return chained(log(x.value), 1 / x.value, x);
}
inline Dual log2(Dual x) {
  return chained(log2(x.value), 1 / (x.value * std::log(2.0)), x);
}
inline Dual log1p(Dual x) {
  return chained(log1p(x.value), 1 / (1 + x.value), x);
}
inline Dual tanh(Dual x) {
  return chained(tanh(x.value), 1 - tanh(x.value) * tanh(x.value), x);
}
inline Dual sigmoid(Dual x) {
  return chained(sigmoid(x.value), sigmoid(x.value) * sigmoid(-x.value), x);
}
inline Dual sin(Dual x) {
  return chained(sin(x.value), cos(x.value), x);
}
inline Dual cos(Dual x) {
  return chained(cos(x.value), -sin(x.value), x);
}
inline Dual erf(Dual x) {
  return chained(erf(x.value), 2 / std::sqrt(std::acos(-1.0)) * exp(-x.value * x.value), x);
}
inline Dual sqrt(Dual x) {
  return chained(sqrt(x.value), 0.5 * rsqrt(x.value), x);
}
inline Dual rsqrt(Dual x) {
  return chained(rsqrt(x.value), -0.5 * rsqrt(x.value) / x.value, x);
}
inline Dual floor(Dual x) {
  return floor(x.value);
}
inline Dual ceil(Dual x) {
  return ceil(x.value);
}
inline Dual round(Dual x) {
  return round(x.value);
}
inline Dual trunc(Dual x) {
  return trunc(x.value);
}
/// A base or an exponent that does not depend on the score has no derivative, also where that would be infinite.
inline Dual pow(Dual x, Dual y) {
  const double by_base = x.slope == 0 ? 0 : y.value * pow(x.value, y.value - 1) * x.slope,
               by_exponent = y.slope == 0 ? 0 : pow(x.value, y.value) * log(x.value) * y.slope;
  return {pow(x.value, y.value), by_base + by_exponent};
}

inline int abs(int x) {
  return x < 0 ? -x : x;
}
inline double abs(float x) {
  return std::fabs(x);
}
inline double abs(double x) {
  return std::fabs(x);
}
inline Dual abs(Dual x) {
  return chained(abs(x.value), x.value > 0 ? 1 : x.value < 0 ? -1 : 0, x);
}

/// The type to which both convert.
template <class A, class B>
using Both = std::decay_t<decltype(true ? std::declval<A>() : std::declval<B>())>;

template <class A, class B>
auto min(A first, B second) {
  const Both<A, B> a = first, b = second;
  if constexpr (std::is_same_v<Both<A, B>, Dual>)
    if (a == b) return Dual(a.value, (a.slope + b.slope) / 2);
  return b < a ? b : a;
}
template <class A, class B>
auto max(A first, B second) {
  const Both<A, B> a = first, b = second;
  if constexpr (std::is_same_v<Both<A, B>, Dual>)
    if (a == b) return Dual(a.value, (a.slope + b.slope) / 2);
  return a < b ? b : a;
}
template <class A, class B>
auto floor_div(A first, B second) {
  const Both<A, B> a = first, b = second;
  if constexpr (std::is_integral_v<Both<A, B>>)
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  else
    return floor(a / b);
}
template <class A, class B>
auto remainder(A first, B second) {
  const Both<A, B> a = first, b = second;
  return a - floor_div(a, b) * b;
}

}  // namespace fa2::score
