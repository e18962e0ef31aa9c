// References for outputs: attention on the CPU in float64, and baselines in the input's precision.
#pragma once

#include <core/float_bits.h>
#include <fa2/args.h>
#include <fa2/problem.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fa2::reference {

/// A host tensor in logical (batch, head, row, dim) order. Its float32 values are already rounded to the
/// problem's dtype, or for K and V to its kv_type. Packed sequences form a batch of one.
struct Tensor {
  std::int64_t batch = 0, heads = 0, rows = 0, dim = 0;
  std::vector<float> values;  ///< contiguous, in that order
  float& at(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t d) {
    return values[static_cast<std::size_t>(((b * heads + h) * rows + r) * dim + d)];
  }
  float at(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t d) const {
    return const_cast<Tensor*>(this)->at(b, h, r, d);
  }
};

/// Returns the position of query i.
std::int64_t query_position(const QueryPieces& pieces, std::int64_t i);

/// Returns whether query i may see key j. Not for varlen, whose sequences are separate problems
/// (reference/sequences.h).
bool is_visible(const AttentionProblem& problem, std::int64_t i, std::int64_t j,
                const QueryPieces& pieces = {});

/// Outputs. With varlen, rows of no sequence are NaN.
struct Result {
  Tensor out;
  /// (batch, heads_q, seqlen_q) or (heads_q, total_q), to the problem's lse_base. A row without keys has the
  /// infinity of empty_row_lse.
  std::vector<double> lse;
  std::vector<double> max_logits;  ///< (batch, heads_q), whether the problem has max_logits or not
};

/// Returns the factor of a natural logarithm that makes it an LSE.
double lse_unit(LseBase base);

/// The position of a score. `head` is a query head.
struct ScorePosition {
  std::int64_t batch = 0, head = 0, query = 0, key = 0;
  std::int64_t queries = 0,
               keys = 0;  ///< of the sequence; with query_pieces the whole one, whose queries are counted
};

/// What the texts of AttentionProblem::score_text compute, in float64. Empty functions: nothing.
struct ScoreFunctions {
  std::function<double(double score, const ScorePosition&)> mod = {};    ///< with the bias
  std::function<double(double score, const ScorePosition&)> slope = {};  ///< d mod / d score; empty: 1
  std::function<bool(const ScorePosition&)> mask = {};
  /// Takes the gradient with respect to what mod returns for a score, from many threads. For references of captures' gradients.
  std::function<void(double score, const ScorePosition&, double gradient)> take_gradient = {};
};

/// Parameters that turn Q K^T into scores.
struct ScoreRule {
  double scale = 1;
  /// Host pointers to the numbers of variants and to tables of sequences; nothing else is read.
  AttentionArgs numbers = {};
  std::int64_t first_batch = 0;  ///< batch index of entry 0 in the whole call; for dropout
  /// One flag per key of the sequence. A key whose page is missing has true, and no query sees it. Empty: no page is missing.
  std::vector<bool> missing_keys = {};
  ScoreFunctions functions = {};

  ScoreRule(double softmax_scale) : scale(softmax_scale) {}  // NOLINT: a scale alone is a rule
};

/// Returns a score. `product`: Q K^T.
double score_of(const AttentionProblem& problem, const ScoreRule& rule, const ScorePosition& at,
                double product);

/// Returns what the texts get in place of a score.
double score_before_texts(const AttentionProblem& problem, const ScoreRule& rule, const ScorePosition& at,
                          double product);

/// Returns the score's derivative with respect to scale * product.
double score_slope_of(const AttentionProblem& problem, const ScoreRule& rule, const ScorePosition& at,
                      double product);

/// Computes attention in float64, on all cores.
Result attention_f64(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                     const ScoreRule& rule, EmptyRowLse empty_row_lse = EmptyRowLse::positive_infinity);

/// The unfused baseline of the numerics contract. Scores, probabilities and output are stored in the
/// problem's dtype, each rounded once, as in an unfused framework with float32 accumulation in a matmul.
Tensor attention_baseline(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                          const ScoreRule& rule);

/// The stricter, fused baseline of the numerics contract: the rounding that a fused kernel cannot avoid.
/// Scores are float32, and the largest probability is 1. Probabilities are rounded once to the problem's
/// dtype, after they were summed; the output is rounded once.
Tensor attention_fused_baseline(const AttentionProblem& problem, const Tensor& q, const Tensor& k,
                                const Tensor& v, const ScoreRule& rule);

/// Errors over all elements; infinite if an element of `out` is not finite.
struct Errors {
  double rms = 0;
  double largest = 0;
};
Errors errors_of(const Tensor& out, const Tensor& ref);

/// The numerics contract: max|out - ref| <= 2 * max|baseline - ref| + 1e-5. lse must lie within 1e-5 relative
/// (absolute where a natural |lse| < 1), with equal infinities, and so must max_logits. Elements with a reference that is not finite are not
/// compared; if no element is compared, the verdict is not ok. Rows of no sequence do not count.
struct Verdict {
  bool ok = false;
  double error = 0;           ///< max|out - ref|
  double baseline_error = 0;  ///< max|baseline - ref|
  double limit = 0;
  double lse_error = 0;  ///< 0 without an lse
  std::string message;   ///< one line, also if ok
};
Verdict check(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
              const ScoreRule& rule, const Tensor& out, const std::vector<float>* lse,
              EmptyRowLse empty_row_lse = EmptyRowLse::positive_infinity,
              const std::vector<float>* max_logits = nullptr);

}  // namespace fa2::reference
