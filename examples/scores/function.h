// A function of scores: texts for the kernels, what they capture, and the same function for the host.
#pragma once

#include <fa2/score_text.h>
#include <reference/attention_reference.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace example {

/// The position of a score, as functions of the host see it.
using At = fa2::reference::ScorePosition;

struct ScoreSizes {
  std::int64_t batch, heads;
  std::int64_t length;  ///< queries and keys
};

/// What a text calls by its name.
struct Capture {
  fa2::CaptureSpec spec;
  double number = 0;                ///< of a number
  std::vector<std::byte> elements;  ///< of a tensor: contiguous
  std::vector<std::int64_t> sizes;  ///< of a tensor: of each dimension
};

/// Returns the capture of a number.
inline Capture captured(std::string name, std::int64_t number) {
  return {{std::move(name), fa2::CaptureType::i32}, static_cast<double>(number), {}, {}};
}

/// Returns the capture of a tensor.
template <class Element>
Capture captured(std::string name, fa2::CaptureType type, const std::vector<Element>& elements,
                 std::vector<std::int64_t> sizes) {
  Capture capture{{std::move(name), type, static_cast<int>(sizes.size())}, 0, {}, std::move(sizes)};
  capture.elements.resize(elements.size() * sizeof(Element));
  std::memcpy(capture.elements.data(), elements.data(), capture.elements.size());
  return capture;
}

/// Returns of(0), of(1), ...
template <class Element, class Of>
std::vector<Element> elements_of(std::int64_t count, const Of& of) {
  std::vector<Element> elements(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    elements[static_cast<std::size_t>(i)] = static_cast<Element>(of(i));
  return elements;
}

/// Returns number `i` of a random sequence; in [-1, 1).
inline float random_number(std::int64_t i) {
  std::uint64_t bits = (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 29)) * 0xbf58476d1ce4e5b9u;
  return static_cast<float>(bits >> 40) * 0x1p-23f - 1;
}

struct Function {
  std::string name;
  fa2::ScoreTexts texts;  ///< without captures
  std::vector<Capture> captures = {};
  fa2::reference::ScoreFunctions host;  ///< what the texts say, in float64
  std::int64_t queries = 0;             ///< the last queries of the sequence, which attend; 0: all
};

}  // namespace example
