// The yardsticks of the backward: the gradients of attention in float64 on the CPU, and in the input's own precision.
#pragma once

#include <reference/attention_reference.h>

#include <string>
#include <vector>

namespace fa2::reference {

/// Of L, whose gradients by O and LSE are given. Rows that take no part in any score have 0; with varlen, rows of no
/// sequence NaN.
struct Gradients {
  Tensor dq, dk, dv;
  std::vector<double> dsinks;  ///< (heads_q), over the whole batch; empty without sinks
};

/// float64 throughout, rounded to float32 at the end. All cores. d_lse: shaped like Result::lse, or null: LSE takes no
/// part in L.
Gradients gradients_f64(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& d_o, const std::vector<double>* d_lse, const ScoreRule& rule);

/// The low-precision baseline of the numerics contract: scores, probabilities, O, dP, dS and gradients materialised in
/// the problem's dtype, each rounded once (float32 inside an operation). Of grouped heads, as an unfused framework does
/// it: dK and dV of each query head are rounded, summed and rounded. What the rounding of O does to the sum of dO * O no
/// backward can avoid: that is part of it.
Gradients gradients_baseline(const AttentionProblem& problem, const Tensor& q, const Tensor& k,
                             const Tensor& v, const Tensor& d_o, const std::vector<double>* d_lse,
                             const ScoreRule& rule);

/// The numerics contract of a gradient: max|out - ref| <= 3 * max|baseline - ref| + 1e-5. Elements whose reference is not
/// finite are not compared; where all are such, nothing is ok. `name` begins the message.
Verdict check_gradient(const std::string& name, DType dtype, const Tensor& out, const Tensor& ref,
                       const Tensor& baseline);

}  // namespace fa2::reference
