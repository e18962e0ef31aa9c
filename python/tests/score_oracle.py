"""Compiles texts of traced functions on the host, with the functions that texts may call, also for numbers with a derivative."""

from __future__ import annotations

import ctypes
import pathlib
import subprocess
from typing import Any

#: What texts see, in the ways that matter: one overload for each type of the engine's, and no conversion from Dual to float.
PRELUDE = r"""
#include <cmath>
#include <limits>
#include <type_traits>

namespace oracle {

struct Position { int batch, head, query, key, queries, keys; };

struct Dual {
  float value, slope;
  Dual(float constant) : value(constant), slope(0) {}
  Dual(float number, float derivative) : value(number), slope(derivative) {}
  Dual operator-() const { return {-value, -slope}; }
  friend Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
  friend Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
  friend Dual operator*(Dual a, Dual b) { return {a.value * b.value, a.slope * b.value + a.value * b.slope}; }
  friend Dual operator/(Dual a, Dual b) { return {a.value / b.value, (a.slope - a.value / b.value * b.slope) / b.value}; }
  friend bool operator<(Dual a, Dual b) { return a.value < b.value; }
  friend bool operator>(Dual a, Dual b) { return a.value > b.value; }
  friend bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
  friend bool operator>=(Dual a, Dual b) { return a.value >= b.value; }
  friend bool operator==(Dual a, Dual b) { return a.value == b.value; }
  friend bool operator!=(Dual a, Dual b) { return a.value != b.value; }
};

#define FUNCTION(name, computed, derivative)                                        \
  inline float name(float x) { return computed; }                                   \
  inline Dual name(Dual d) {                                                        \
    const float x = d.value, y = name(x);                                           \
    (void)y;                                                                        \
    return {y, (derivative) * d.slope};                                             \
  }
FUNCTION(exp, std::exp(x), y)
FUNCTION(exp2, std::exp2(x), y * 0.69314718f)
FUNCTION(log, std::log(x), 1 / x)
FUNCTION(log2, std::log2(x), 1 / (x * 0.69314718f))
FUNCTION(log1p, std::log1p(x), 1 / (1 + x))
FUNCTION(tanh, std::tanh(x), 1 - y * y)
FUNCTION(abs, std::fabs(x), (x > 0) - (x < 0))
FUNCTION(sqrt, std::sqrt(x), 0.5f / y)
FUNCTION(rsqrt, 1 / std::sqrt(x), -0.5f * y / x)
FUNCTION(sin, std::sin(x), std::cos(x))
FUNCTION(cos, std::cos(x), -std::sin(x))
FUNCTION(erf, std::erf(x), 1.12837917f * std::exp(-x * x))
FUNCTION(sigmoid, 1 / (1 + std::exp(-x)), y * (1 - y))
FUNCTION(floor, std::floor(x), 0)
FUNCTION(ceil, std::ceil(x), 0)
FUNCTION(round, std::nearbyint(x), 0)
FUNCTION(trunc, std::trunc(x), 0)

inline float min(float a, float b) { return a < b ? a : b; }
inline float max(float a, float b) { return a > b ? a : b; }
inline Dual min(Dual a, Dual b) { return a == b ? Dual(a.value, 0.5f * (a.slope + b.slope)) : a < b ? a : b; }
inline Dual max(Dual a, Dual b) { return -min(-a, -b); }
inline int abs(int x) { return x < 0 ? -x : x; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline int floor_div(int a, int b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
inline int remainder(int a, int b) { return a - floor_div(a, b) * b; }
inline float floor_div(float a, float b) { return std::floor(a / b); }
inline float remainder(float a, float b) {
  const float rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
inline Dual floor_div(Dual a, Dual b) { return floor_div(a.value, b.value); }
inline Dual remainder(Dual a, Dual b) { return {remainder(a.value, b.value), a.slope - floor_div(a.value, b.value) * b.slope}; }
inline float pow(float x, float y) { return std::pow(x, y); }
inline Dual pow(Dual x, Dual y) {
  const float power = std::pow(x.value, y.value);
  return {power, y.value * std::pow(x.value, y.value - 1) * x.slope + (y.slope == 0 ? 0 : power * std::log(x.value) * y.slope)};
}
inline float infinity() { return std::numeric_limits<float>::infinity(); }
inline float nan() { return std::numeric_limits<float>::quiet_NaN(); }
template <class A, class B>
auto select(bool condition, A a, B b) {
  using Both = typename std::conditional_t<std::is_same_v<A, Dual> || std::is_same_v<B, Dual>, std::enable_if<true, Dual>, std::common_type<A, B>>::type;
  return condition ? Both(a) : Both(b);
}

/// Traps at an index out of range, which no test means to use.
template <class T, int kDims>
struct Table {
  const T* data;
  int sizes[kDims + 1];
  template <class... Index>
  T operator()(Index... index) const {
    static_assert(sizeof...(Index) == kDims);
    static_assert((std::is_same_v<Index, int> && ...));
    const int indices[] = {index..., 0};
    long long offset = 0;
    for (int i = 0; i < kDims; ++i) {
      if (indices[i] < 0 || indices[i] >= sizes[i]) __builtin_trap();
      offset = offset * sizes[i] + indices[i];
    }
    return data[offset];
  }
};
"""

_TYPES = {"float16": "float", "bfloat16": "float", "float32": "float", "int64": "long long", "bool": "bool"}


def _source_of(number: int, kind: str, traced: Any) -> str:
    tables = "\n  ".join(f"Table<{_TYPES.get(c.dtype, 'int')}, {c.dims}> {c.name};" for c in traced.captures)
    made = ", ".join(
        f"{{static_cast<const {_TYPES.get(c.dtype, 'int')}*>(data[{i}]), {{{', '.join(map(str, (*c.tensor.shape, 1)))}}}}}"
        for i, c in enumerate(traced.captures)
    )
    result = "bool" if kind == "mask" else "Score"
    return f"""
struct Case{number} {{
  {tables}
  template <class Score>
  {result} text(Score score, const Position& at) const {{
    (void)score, (void)at;
    {traced.text}
  }}
}};
extern "C" void run{number}(int count, const int* at, const float* scores, const void* const* data, float* values, float* slopes) {{
  (void)data;
  const Case{number} text{{{made}}};
  for (int i = 0; i < count; ++i) {{
    const Position position{{at[4 * i], at[4 * i + 1], at[4 * i + 2], at[4 * i + 3], 0, 0}};
    values[i] = text.text<float>(scores[i], position);
    {"slopes[i] = text.text<Dual>(Dual(scores[i], 1), position).slope;" if kind == "mod" else "(void)slopes;"}
  }}
}}
"""


class Oracle:
    """The compiled texts. texts: (mod, mask or bias; what trace_...() returned)."""

    def __init__(self, folder: pathlib.Path, texts: list[tuple[str, Any]]) -> None:
        source, library = folder / "texts.cpp", folder / "texts.so"
        source.write_text(PRELUDE + "".join(_source_of(i, *text) for i, text in enumerate(texts)) + "}\n")
        command = [
            "g++",
            "-std=c++17",
            "-O1",
            "-fwrapv",
            "-Wall",
            "-Werror",
            "-shared",
            "-fPIC",
            "-o",
            str(library),
            str(source),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self._library, self._texts = ctypes.CDLL(str(library)), texts

    def run(self, number: int, positions: list[tuple[int, int, int, int]], scores: list[float]) -> tuple[list[float], list[float]]:
        """Returns values and slopes of a text at each position."""
        count, kept = len(positions), [_memory_of(c.tensor, c.dtype) for c in self._texts[number][1].captures]
        values, slopes = (ctypes.c_float * count)(), (ctypes.c_float * count)()
        data = (ctypes.c_void_p * (len(kept) + 1))(*(address for address, _ in kept))
        flat = (ctypes.c_int * (4 * count))(*(x for position in positions for x in position))
        getattr(self._library, f"run{number}")(count, flat, (ctypes.c_float * count)(*scores), data, values, slopes)
        return list(values), list(slopes)


def _memory_of(tensor: Any, dtype: str) -> tuple[int, Any]:
    """Returns the address of the elements as the text's type, and what owns them."""
    if hasattr(tensor, "data_ptr"):
        tensor = tensor.detach().float() if "float" in dtype else tensor.int() if _TYPES.get(dtype) is None else tensor
        tensor = tensor.contiguous()
        return tensor.data_ptr(), tensor
    import numpy

    kind = {"float": "float32", "long long": "int64", "bool": "bool"}.get(_TYPES.get(dtype, "int"), "int32")
    tensor = numpy.ascontiguousarray(tensor, dtype=kind)
    return tensor.ctypes.data, tensor
