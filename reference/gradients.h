// References for gradients: in float64 on the CPU, and a baseline in the input's precision.
#pragma once

#include <reference/attention_reference.h>

#include <string>
#include <vector>

namespace fa2::reference {

/// Gradients of L, for given gradients with respect to O and LSE. Rows without part in any score are 0; with
/// varlen, rows of no sequence are NaN.
struct Gradients {
  Tensor dq, dk, dv;
  std::vector<double> dsinks;  ///< (heads_q), summed over the batch; empty without sinks
};

/// Computes gradients in float64 on all cores, and rounds them to float32 at the end. d_lse: shaped like
/// Result::lse; null: L does not depend on LSE.
Gradients gradients_f64(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& d_out, const std::vector<double>* d_lse, const ScoreRule& rule);

/// The baseline of the numerics contract. Scores, probabilities, O, dP, dS and gradients are stored in the
/// problem's dtype, each rounded once (float32 inside an operation). For grouped heads, dK and dV of each
/// query head are rounded, summed and rounded again, as in an unfused framework. The sum of dO * O uses the
/// rounded O, because no backward can avoid that.
Gradients gradients_baseline(const AttentionProblem& problem, const Tensor& q, const Tensor& k,
                             const Tensor& v, const Tensor& d_out, const std::vector<double>* d_lse,
                             const ScoreRule& rule);

/// The numerics contract of a gradient: max|out - ref| <= 3 * max|baseline - ref| + 1e-5. Elements with a
/// reference that is not finite are not compared; if no element is compared, the verdict is not ok. `name`
/// begins the message.
Verdict check_gradient(const std::string& name, DType dtype, const Tensor& out, const Tensor& ref,
                       const Tensor& baseline);

}  // namespace fa2::reference
