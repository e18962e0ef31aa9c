// Functions of scores in a caller's own words, which become part of the kernels.
#pragma once

#include <fa2/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {

struct AttentionProblem;  // fa2/problem.h

/// The body of a function, in CUDA C++. It returns. `at` says which score it is about: at.batch, at.head (the query head), at.query and
/// at.key, counted from 0 in their sequence, and the sequence's lengths at.queries and at.keys; all int. A position may lie beyond a
/// length, where the result does not matter. The function must be pure: kernels call it any number of times.
///
/// A text may call captures by their names, and exp, exp2, log, log2, log1p, tanh, sigmoid, sin, cos, erf, sqrt, rsqrt, pow, floor,
/// ceil, round, trunc, abs, min, max, select(condition, a, b), infinity(), nan(), floor_div and remainder; the last two round to minus
/// infinity. Refused are preprocessor directives, string and character literals, `asm`, trigraphs, digraphs, and brackets that do
/// not match.
struct ScoreText {
  std::string text;  ///< at most 64 KiB; empty: no function
  /// The file and the line of the text's beginning, which compilers name in their messages. Without quotes, backslashes and line
  /// breaks. They are no part of a kernel's identity: of equal texts the first one made decides.
  std::string file = "score text";
  int line = 1;

  ScoreText() = default;
  ScoreText(std::string body, std::string from_file = "score text",
            int first_line = 1)  // NOLINT: a body is a text
      : text(std::move(body)), file(std::move(from_file)), line(first_line) {}
  ScoreText(const char* body) : text(body) {}  // NOLINT: like std::string
};

/// Element types of captures; a boolean has a byte. The values are those of fa2_array.dtype.
enum class CaptureType : std::uint8_t { f16, bf16, f32, i32, i64, u8, boolean = 7 };

/// A tensor or a number that a call gives to texts. Texts call it by its name, with an index per dimension: `table(at.head, at.key)`.
/// They get a float of a floating type, an int of i32 and u8, a long long of i64, a bool of boolean. An index outside [0, size) reads
/// some element of the tensor, on GPUs; the interpreter reports it.
///
/// A tensor with an element per score, such as a bias, is of kPerScore: f16, bf16 or f32 of (batch, heads_q, seqlen_q, seqlen_k), which
/// texts read as `pair(at)`, of the position that they were given. Kernels on wgmma bring its tiles to shared memory before they need them. The first two sizes may be 1,
/// for all entries or heads the same; the keys are contiguous, and address and strides are multiples of 16 bytes. Other tensors are
/// of 4 dimensions, `pair(at.batch, at.head, at.query, at.key)`, which takes longer.
struct CaptureSpec {
  static constexpr int kNumber = -1;
  static constexpr int kPerScore = -2;

  std::string name;  ///< an identifier; not `at`, `score`, or a function of texts
  CaptureType type = CaptureType::f32;
  int dimensions =
      kNumber;  ///< 0..4 of a tensor; kNumber: AttentionArgs holds the number itself, as f32, i32, i64 or boolean; kPerScore
};

constexpr int kMostCaptures = 8;
constexpr int kMostCaptureDimensions = 4;

/// The capture of one call: AttentionArgs::captures points to one for each CaptureSpec.
struct ScoreCapture {
  const void* data = nullptr;  ///< of a tensor: the first element, on the plan's device; null for a number
  double number = 0;           ///< of a number: the value
  std::int64_t sizes[kMostCaptureDimensions] =
      {};  ///< of each dimension: 1 .. 2^31 - 1; 0 where there is no dimension
  /// Elements, of either sign, even 0; that of the last dimension less than 2 GiB.
  std::int64_t strides[kMostCaptureDimensions] = {};
};

/// Blocks of queries and keys, counted from 0 in their sequence.
struct MaskBlock {
  int queries = 1;
  int keys = 1;
  friend bool operator==(const MaskBlock& a, const MaskBlock& b) {
    return a.queries == b.queries && a.keys == b.keys;
  }
  friend bool operator!=(const MaskBlock& a, const MaskBlock& b) { return !(a == b); }
};

constexpr int kLargestMaskBlock = 1 << 20;  ///< of both members

/// S = scale * Q K^T, then softcap and ALiBi, then these in their order, then the problem's mask, windows and chunks. Gradients follow
/// from the same texts, also those of captures (BackwardArgs::d_captures), where float stands for a number with a derivative.
struct ScoreTexts {
  ScoreText bias = {};  ///< returns a float, which is added to the score
  /// Returns the new score. `score` has the type Score, which kernels of gradients replace by a number with a derivative: declare what
  /// depends on it as Score or auto. It does not convert to float.
  ScoreText mod = {};
  /// Returns d mod / d score, a float, of the same float `score` as mod. Empty: kernels of gradients derive it from mod, which is
  /// then compiled with other numbers than floats. check_score_text() compares both.
  ScoreText mod_slope = {};
  /// Returns a bool: whether the query sees the key. Otherwise the score becomes -infinity. The value of a key that no query sees may
  /// still be multiplied by 0, so it must be finite.
  ScoreText mask = {};
  /// The blocks in each of which the mask answers the same for all pairs of a head, for masks that are lists or tables of blocks. Its
  /// map (fa2/block_map.h) then takes one evaluation a row and block, and kernels have tiles that divide the blocks, if there are such.
  /// If the mask differs inside a block, results are wrong.
  MaskBlock mask_block = {};
  /// What the texts read beside positions; at most kMostCaptures.
  std::vector<CaptureSpec> captures = {};
};

/// Makes texts known in this process, for good, and returns their number for AttentionProblem::score_text. It depends on the texts
/// alone, so that kernel caches and packs serve any process that has made the same ones. Compiles nothing. Thread-safe.
/// @throws InvalidRequest if all texts are empty, or one is refused.
FA2_API std::int64_t make_score_text(const ScoreTexts& texts);

/// Returns the texts with a number. The reference stays valid. Thread-safe.
/// @throws InvalidRequest if no texts with this number were made in this process.
FA2_API const ScoreTexts& score_texts(std::int64_t number);

/// Returns whether calls of the problem may give a tensor as a capture of CaptureSpec::kPerScore. A tensor that does not fit may be a
/// capture of 4 dimensions. Of the problem, batch, heads_q, seqlen_q and seqlen_k count.
FA2_API bool fits_per_score(const AttentionProblem& problem, CaptureType type, const ScoreCapture& capture);

/// Compiles the texts of a problem for the host, in double precision, and compares mod_slope, if there is one, with the derivative of
/// mod at random scores and positions, and the mask at random pairs of each mask_block. `captures`: those of a call, but with pointers to host memory. Needs no device, and a C++
/// compiler as the interpreter does.
/// @throws InvalidRequest with a score and its position if mod_slope differs by more than 1e-4, relative above 1, or the mask inside a
/// block, or if the captures are not those of the texts; CompileError if a text does not compile, or mod not with numbers that carry a derivative; Unavailable
/// without a compiler.
FA2_API void check_score_text(const AttentionProblem& problem, const ScoreCapture* captures = nullptr,
                              std::int64_t capture_count = 0);

}  // namespace fa2
