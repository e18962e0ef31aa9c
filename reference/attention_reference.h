// The yardsticks: attention in float64 on the CPU, and the same maths in the input's own precision.
#pragma once

#include <core/float_bits.h>
#include <fa2/args.h>
#include <fa2/problem.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fa2::reference {

/// A host tensor in logical (batch, head, row, dim) order, float32 values already rounded to the problem's
/// dtype. Packed sequences are a batch of one.
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

/// Whether query i may see key j. Not of varlen: each of its sequences is a problem of its own (reference/sequences.h).
bool is_visible(const AttentionProblem& problem, std::int64_t i, std::int64_t j);

/// With varlen, NaN in rows of no sequence.
struct Result {
  Tensor o;
  /// (batch, heads_q, seqlen_q) or (heads_q, total_q), natural log; empty_row_lse's infinity for a row without keys.
  std::vector<double> lse;
};

/// What turns Q K^T into scores.
struct ScoreRule {
  double scale = 1;
  AttentionArgs numbers =
      {};  ///< of the problem's variants and sequences, host pointers; nothing else is read
  std::int64_t first_batch = 0;  ///< of the whole call, where the problem is a sequence of it: for dropout

  ScoreRule(double softmax_scale) : scale(softmax_scale) {}  // NOLINT: a scale alone is a rule
};

/// The score of query i and key j, of which `product` is Q K^T.
double score_of(const AttentionProblem& problem, const ScoreRule& rule, std::int64_t batch, std::int64_t head,
                std::int64_t i, std::int64_t j, double product);

/// Its derivative by scale * product.
double score_slope_of(const AttentionProblem& problem, const ScoreRule& rule, double product);

/// float64 throughout. All cores.
Result attention_f64(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                     const ScoreRule& rule, EmptyRowLse empty_row_lse = EmptyRowLse::positive_infinity);

/// The low-precision baseline of the numerics contract: scores, probabilities and output materialised in the
/// problem's dtype, each rounded once, as an unfused framework in that dtype computes them (float32
/// accumulation inside a matmul).
Tensor attention_baseline(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                          const ScoreRule& rule);

/// The stricter baseline of the numerics contract: what a fused kernel cannot avoid. Scores in float32, the
/// largest probability 1, each rounded once to the problem's dtype, the sum of them before that, the output
/// rounded once.
Tensor attention_fused_baseline(const AttentionProblem& problem, const Tensor& q, const Tensor& k,
                                const Tensor& v, const ScoreRule& rule);

/// Over all elements; infinite if one of `out` is not finite.
struct Errors {
  double rms = 0;
  double largest = 0;
};
Errors errors_of(const Tensor& out, const Tensor& ref);

/// The numerics contract: max|out - ref| <= 2 * max|baseline - ref| + 1e-5, and lse within 1e-5 relative
/// (absolute where |lse| < 1), infinities equal. Elements whose reference is not finite are not compared; where
/// all are such, nothing is ok. Rows of no sequence count as nothing.
struct Verdict {
  bool ok = false;
  double error = 0;           ///< max|out - ref|
  double baseline_error = 0;  ///< max|baseline - ref|
  double limit = 0;
  double lse_error = 0;  ///< 0 if no lse was given
  std::string message;   ///< one line, also when ok
};
Verdict check(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
              const ScoreRule& rule, const Tensor& out, const std::vector<float>* lse,
              EmptyRowLse empty_row_lse = EmptyRowLse::positive_infinity);

}  // namespace fa2::reference
