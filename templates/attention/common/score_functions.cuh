// What texts of scores may name: the position, functions of numbers, and numbers with a derivative.
#pragma once

#include "attention/common/captured.cuh"
#include "ptx/math.cuh"

namespace fa2::score {

/// The position of a score.
struct Position {
  int batch;
  int head;  ///< query head
  int query;
  int key;
  int queries;  ///< of the sequence
  int keys;
};

FA2_DEVICE float infinity() {
  return ptx::infinity();
}
FA2_DEVICE float nan() {
  return ptx::float_of(0x7fffffffu);
}
/// Returns a or b, as the type that both convert to.
template <class A, class B>
FA2_DEVICE auto select(bool condition, A a, B b) {
  return condition ? a : b;
}

constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;

FA2_DEVICE float exp2(float x) {
  return ptx::ex2_approx(x);
}
FA2_DEVICE float exp(float x) {
  return exp2(x * kLog2E);
}
FA2_DEVICE float log2(float x) {
  return ptx::lg2_approx(x);
}
FA2_DEVICE float log(float x) {
  return log2(x) * kLn2;
}
/// With a relative error of at most 2e-6.
FA2_DEVICE float tanh(float x) {
  constexpr float kNear = 0.3f;
  const float far = 1.0f - 2.0f * ptx::rcp_approx(exp2(2.0f * kLog2E * x) + 1.0f), square = x * x;
  const float series = ptx::fma_rn(square, ptx::fma_rn(square, -17.0f / 315.0f, 2.0f / 15.0f), -1.0f / 3.0f);
  const float near =
      ptx::fma_rn(x * square, ptx::fma_rn(square * square * square, 62.0f / 2835.0f, series), x);
  return square < kNear * kNear ? near : far;
}
FA2_DEVICE float sigmoid(float x) {
  return ptx::rcp_approx(1.0f + exp(-x));
}
FA2_DEVICE float sqrt(float x) {
  return ptx::sqrt_approx(x);
}
FA2_DEVICE float rsqrt(float x) {
  return ptx::rsqrt_approx(x);
}
FA2_DEVICE float floor(float x) {
  return ptx::floor_f32(x);
}
FA2_DEVICE float ceil(float x) {
  return ptx::ceil_f32(x);
}
/// Rounds to the nearest integer, of two to the even one.
FA2_DEVICE float round(float x) {
  return ptx::round_f32(x);
}
FA2_DEVICE float trunc(float x) {
  return ptx::trunc_f32(x);
}
/// Returns the angle without whole turns.
FA2_DEVICE float within_a_turn(float x) {
  constexpr float kTurnHigh = 6.28318548f, kTurnLow = -1.74845553e-7f, kTurns = 0.159154943f;
  const float turns = round(x * kTurns);
  return ptx::fma_rn(-turns, kTurnLow, ptx::fma_rn(-turns, kTurnHigh, x));
}
FA2_DEVICE float sin(float x) {
  return ptx::sin_approx(within_a_turn(x));
}
FA2_DEVICE float cos(float x) {
  return ptx::cos_approx(within_a_turn(x));
}
FA2_DEVICE float log1p(float x) {
  const float sum = 1.0f + x;  // whose rounding error the quotient undoes
  return sum == 1.0f || sum == ptx::infinity() ? x : log(sum) * (x / (sum - 1.0f));
}
/// With an error of at most 4e-7. From 0.6 on formula 7.1.26 of Abramowitz and Stegun, before it a series.
FA2_DEVICE float erf(float x) {
  constexpr float kTwoBySqrtPi = 1.12837917f, kNear = 0.6f;
  const float square = x * x, size = ptx::abs_f32(x), t = ptx::rcp_approx(1.0f + 0.3275911f * size);
  const float near =
      kTwoBySqrtPi * x *
      (1.0f -
       square * (1.0f / 3 - square * (0.1f - square * (1.0f / 42 - square * (1.0f / 216 - square / 1320)))));
  const float tail =
      t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  const float far = 1.0f - tail * exp(-square);
  return size < kNear ? near : x < 0.0f ? -far : far;
}
/// Returns x^y. A negative x has powers for integers y alone; the others are NaN. The relative error grows with |y log2(x)|.
FA2_DEVICE float pow(float x, float y) {
  if (y == 0.0f) return 1.0f;
  const float power = exp2(y * log2(ptx::abs_f32(x)));
  if (!(x < 0.0f)) return power;
  const bool is_odd = floor(0.5f * y) * 2.0f != y;
  return floor(y) != y ? nan() : is_odd ? -power : power;
}
FA2_DEVICE float abs(float x) {
  return ptx::abs_f32(x);
}
FA2_DEVICE float min(float a, float b) {
  return ptx::min_f32(a, b);
}
FA2_DEVICE float max(float a, float b) {
  return ptx::max_f32(a, b);
}
FA2_DEVICE int abs(int x) {
  return x < 0 ? -x : x;
}
FA2_DEVICE int min(int a, int b) {
  return a < b ? a : b;
}
FA2_DEVICE int max(int a, int b) {
  return a > b ? a : b;
}
/// Rounded to minus infinity. Undefined for b = 0.
FA2_DEVICE int floor_div(int a, int b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
/// Has the sign of b.
FA2_DEVICE int remainder(int a, int b) {
  return a - floor_div(a, b) * b;
}
FA2_DEVICE float floor_div(float a, float b) {
  return floor(a / b);
}
FA2_DEVICE float remainder(float a, float b) {
  return a - floor_div(a, b) * b;
}

/// A number, and its derivative with respect to the score or to what a text reads. Comparisons are those of numbers. There is no
/// conversion to float, which would lose the derivative. Integers have none.
struct Dual {
  float value;
  float slope;

  Dual() = default;
  FA2_DEVICE Dual(float constant) : value(constant), slope(0.0f) {}  // NOLINT: a constant is a number
  FA2_DEVICE Dual(float number, float derivative) : value(number), slope(derivative) {}

  FA2_DEVICE explicit operator int() const { return static_cast<int>(value); }
  FA2_DEVICE explicit operator i64() const { return static_cast<i64>(value); }

  FA2_DEVICE Dual operator-() const { return {-value, -slope}; }
  FA2_DEVICE friend Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
  FA2_DEVICE friend Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
  FA2_DEVICE friend Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, ptx::fma_rn(a.slope, b.value, a.value * b.slope)};
  }
  FA2_DEVICE friend Dual operator/(Dual a, Dual b) {
    const float quotient = a.value / b.value;
    return {quotient, (a.slope - quotient * b.slope) / b.value};
  }
  FA2_DEVICE Dual& operator+=(Dual b) { return *this = *this + b; }
  FA2_DEVICE Dual& operator-=(Dual b) { return *this = *this - b; }
  FA2_DEVICE Dual& operator*=(Dual b) { return *this = *this * b; }
  FA2_DEVICE Dual& operator/=(Dual b) { return *this = *this / b; }
  FA2_DEVICE friend bool operator<(Dual a, Dual b) { return a.value < b.value; }
  FA2_DEVICE friend bool operator>(Dual a, Dual b) { return a.value > b.value; }
  FA2_DEVICE friend bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
  FA2_DEVICE friend bool operator>=(Dual a, Dual b) { return a.value >= b.value; }
  FA2_DEVICE friend bool operator==(Dual a, Dual b) { return a.value == b.value; }
  FA2_DEVICE friend bool operator!=(Dual a, Dual b) { return a.value != b.value; }
};

FA2_DEVICE Dual exp2(Dual x) {
  const float power = exp2(x.value);
  return {power, power * kLn2 * x.slope};
}
FA2_DEVICE Dual exp(Dual x) {
  const float power = exp(x.value);
  return {power, power * x.slope};
}
FA2_DEVICE Dual log2(Dual x) {
  return {log2(x.value), x.slope / (x.value * kLn2)};
}
FA2_DEVICE Dual log(Dual x) {
  return {log(x.value), x.slope / x.value};
}
FA2_DEVICE Dual tanh(Dual x) {
  const float t = tanh(x.value);
  return {t, ptx::fma_rn(-t, t, 1.0f) * x.slope};
}
FA2_DEVICE Dual sigmoid(Dual x) {
  const float s = sigmoid(x.value);
  return {s, s * (1.0f - s) * x.slope};
}
FA2_DEVICE Dual sqrt(Dual x) {
  return {sqrt(x.value), 0.5f * rsqrt(x.value) * x.slope};
}
FA2_DEVICE Dual rsqrt(Dual x) {
  const float r = rsqrt(x.value);
  return {r, -0.5f * r * r * r * x.slope};
}
FA2_DEVICE Dual sin(Dual x) {
  return {sin(x.value), cos(x.value) * x.slope};
}
FA2_DEVICE Dual cos(Dual x) {
  return {cos(x.value), -sin(x.value) * x.slope};
}
FA2_DEVICE Dual log1p(Dual x) {
  return {log1p(x.value), x.slope / (1.0f + x.value)};
}
FA2_DEVICE Dual erf(Dual x) {
  constexpr float kTwoBySqrtPi = 1.12837917f;
  return {erf(x.value), kTwoBySqrtPi * exp(-x.value * x.value) * x.slope};
}
/// What does not depend on the score, the base or the exponent, needs no derivative, which may be infinite.
FA2_DEVICE Dual pow(Dual x, Dual y) {
  const float power = pow(x.value, y.value);
  float slope = 0.0f;
  if (x.slope != 0.0f) slope += y.value * pow(x.value, y.value - 1.0f) * x.slope;
  if (y.slope != 0.0f) slope += power * log(x.value) * y.slope;
  return {power, slope};
}
FA2_DEVICE Dual floor(Dual x) {
  return floor(x.value);
}
FA2_DEVICE Dual ceil(Dual x) {
  return ceil(x.value);
}
FA2_DEVICE Dual round(Dual x) {
  return round(x.value);
}
FA2_DEVICE Dual trunc(Dual x) {
  return trunc(x.value);
}
FA2_DEVICE Dual floor_div(Dual a, Dual b) {
  return floor_div(a.value, b.value);
}
FA2_DEVICE Dual remainder(Dual a, Dual b) {
  return a - floor_div(a, b) * b;
}
/// The slope at 0 is 0.
FA2_DEVICE Dual abs(Dual x) {
  return {abs(x.value), x.value > 0.0f ? x.slope : x.value < 0.0f ? -x.slope : 0.0f};
}
/// Equal numbers contribute half of their slopes each.
FA2_DEVICE Dual min(Dual a, Dual b) {
  if (a == b) return {a.value, 0.5f * (a.slope + b.slope)};
  return a < b ? a : b;
}
FA2_DEVICE Dual max(Dual a, Dual b) {
  return -min(-a, -b);
}

}  // namespace fa2::score
