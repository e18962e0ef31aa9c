// What texts of scores may name: the position, functions of numbers, and numbers with a derivative.
#pragma once

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

/// A number, and its derivative with respect to the score. Comparisons are those of numbers. There is no conversion to float,
/// which would lose the derivative.
struct Dual {
  float value;
  float slope;

  FA2_DEVICE Dual(float constant) : value(constant), slope(0.0f) {}  // NOLINT: a constant is a number
  FA2_DEVICE Dual(float number, float derivative) : value(number), slope(derivative) {}

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
