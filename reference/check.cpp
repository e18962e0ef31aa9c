// The numerics contract: how far an output may be from the float64 reference.
#include <fmt/format.h>
#include <reference/attention_reference.h>
#include <reference/gradients.h>
#include <reference/sequences.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fa2::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLseLimit = 1e-5;

std::string index_text(const Tensor& t, std::size_t flat) {
  const std::int64_t i = static_cast<std::int64_t>(flat), rows = i / t.dim;
  return fmt::format("[batch {}, head {}, row {}, dim {}]", rows / t.rows / t.heads, rows / t.rows % t.heads,
                     rows % t.rows, i % t.dim);
}

/// Returns the baseline's error. If scores overflow in 16 bits, the baseline is not finite; rounding the
/// reference replaces it there.
double baseline_error_of(const Tensor& baseline, const Tensor& ref, DType dtype) {
  double worst = 0;
  for (std::size_t i = 0; i < ref.values.size(); ++i) {
    const double expected = ref.values[i];
    if (!std::isfinite(expected)) continue;
    const float low = std::isfinite(baseline.values[i]) ? baseline.values[i] : round_to(ref.values[i], dtype);
    if (std::isfinite(low)) worst = std::max(worst, std::abs(low - expected));
  }
  return worst;
}

struct Worst {
  double error = 0;         ///< infinite if out is NaN or infinite and the reference is finite
  std::size_t index = 0;    ///< first element with that error
  std::size_t skipped = 0;  ///< elements whose reference is not finite; not compared
};

Worst worst_error(const Tensor& out, const Tensor& ref) {
  Worst worst;
  for (std::size_t i = 0; i < ref.values.size(); ++i) {
    const double expected = ref.values[i], actual = out.values[i];
    if (!std::isfinite(expected)) {
      ++worst.skipped;
      continue;
    }
    const double error = std::isfinite(actual) ? std::abs(actual - expected) : kInfinity;
    if (error > worst.error) worst.error = error, worst.index = i;
  }
  return worst;
}

/// Returns how many elements of O belong to a sequence.
std::size_t elements_of_sequences(const AttentionProblem& problem, const ScoreRule& rule, const Tensor& o) {
  std::int64_t rows = 0;
  for (const Sequence& sequence : sequences_of(problem, rule.numbers)) rows += sequence.q.count;
  return std::min(static_cast<std::size_t>(rows * o.heads * o.dim), o.values.size());
}

/// Returns the largest relative error, and where |ref| < `one` the error in units of it. Infinities must be equal. A NaN reference
/// is not compared.
Worst worst_relative_error(const std::vector<float>& values, const std::vector<double>& ref, double one) {
  Worst worst;
  for (std::size_t i = 0; i < ref.size(); ++i) {
    const double expected = ref[i], actual = values[i];
    if (std::isnan(expected) || actual == expected) continue;
    const double error = std::isfinite(expected) && std::isfinite(actual)
                             ? std::abs(actual - expected) / std::max(one, std::abs(expected))
                             : kInfinity;
    if (error > worst.error) worst.error = error, worst.index = i;
  }
  return worst;
}

bool same_shape(const Tensor& a, const Tensor& b) {
  return a.batch == b.batch && a.heads == b.heads && a.rows == b.rows && a.dim == b.dim &&
         a.values.size() == b.values.size();
}

std::string shape_text(const Tensor& t) {
  return fmt::format("({}, {}, {}, {})", t.batch, t.heads, t.rows, t.dim);
}

/// Judges lse and appends to the message.
void check_lse(const std::vector<float>& lse, const Result& ref, LseBase base, Verdict& verdict) {
  if (lse.size() != ref.lse.size()) {
    verdict.ok = false;
    verdict.message += fmt::format("; lse has {} elements, expected {}", lse.size(), ref.lse.size());
    return;
  }
  const Worst worst = worst_relative_error(lse, ref.lse, lse_unit(base));
  verdict.lse_error = worst.error;
  verdict.message += fmt::format("; lse error {:.3g}, limit {:.0e}", worst.error, kLseLimit);
  if (worst.error <= kLseLimit) return;
  verdict.ok = false;
  const std::size_t rows = static_cast<std::size_t>(ref.out.rows),
                    heads = static_cast<std::size_t>(ref.out.heads);
  verdict.message +=
      fmt::format(", worst at [batch {}, head {}, row {}]: {} instead of {}", worst.index / rows / heads,
                  worst.index / rows % heads, worst.index % rows, lse[worst.index], ref.lse[worst.index]);
}

/// Judges max_logits and appends to the message.
void check_max_logits(const std::vector<float>& max_logits, const Result& ref, Verdict& verdict) {
  if (max_logits.size() != ref.max_logits.size()) {
    verdict.ok = false;
    verdict.message +=
        fmt::format("; max_logits has {} elements, expected {}", max_logits.size(), ref.max_logits.size());
    return;
  }
  const Worst worst = worst_relative_error(max_logits, ref.max_logits, 1);
  verdict.message += fmt::format("; max_logits error {:.3g}, limit {:.0e}", worst.error, kLseLimit);
  if (worst.error <= kLseLimit) return;
  verdict.ok = false;
  verdict.message += fmt::format(", worst at element {}: {} instead of {}", worst.index,
                                 max_logits[worst.index], ref.max_logits[worst.index]);
}

/// One contract: the error may be `factor` times that of the dtype's baseline, over `elements` elements.
struct Allowance {
  DType dtype;
  int factor;
  std::size_t elements;  ///< number of elements to compare
};

/// Returns the verdict. The caller must put the tensor's name before its message.
Verdict compare(const Tensor& out, const Tensor& ref, const Tensor& baseline, const Allowance& allowance) {
  Verdict verdict;
  if (!same_shape(out, ref)) {
    verdict.message = fmt::format("output has shape {}, expected {}", shape_text(out), shape_text(ref));
    return verdict;
  }
  const auto& [dtype, factor, elements] = allowance;
  verdict.baseline_error = baseline_error_of(baseline, ref, dtype);
  verdict.limit = factor * verdict.baseline_error + 1e-5;
  const Worst worst = worst_error(out, ref);
  verdict.error = worst.error;
  const std::size_t skipped = worst.skipped - (ref.values.size() - elements);
  const bool compared = elements == 0 || skipped < elements;
  verdict.ok = compared && worst.error <= verdict.limit;
  verdict.message = fmt::format("error {:.3g}, limit {:.3g} ({} x {:.3g} of the {} baseline + 1e-5)",
                                worst.error, verdict.limit, factor, verdict.baseline_error, to_string(dtype));
  if (!compared) {
    verdict.message += "; nothing was compared";
  } else if (!verdict.ok) {
    verdict.message += fmt::format(", worst first at {}: {} instead of {}", index_text(out, worst.index),
                                   out.values[worst.index], ref.values[worst.index]);
  }
  if (skipped != 0) verdict.message += fmt::format("; {} elements without a finite reference", skipped);
  return verdict;
}

}  // namespace

Errors errors_of(const Tensor& out, const Tensor& ref) {
  Errors errors;
  for (std::size_t i = 0; i < ref.values.size(); ++i) {
    const double difference = static_cast<double>(out.values[i]) - ref.values[i];
    const double error = std::isfinite(difference) ? std::abs(difference) : kInfinity;
    errors.rms += error * error / static_cast<double>(ref.values.size());
    errors.largest = std::max(errors.largest, error);
  }
  errors.rms = std::sqrt(errors.rms);
  return errors;
}

Verdict check(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
              const ScoreRule& rule, const Tensor& out, const std::vector<float>* lse,
              EmptyRowLse empty_row_lse, const std::vector<float>* max_logits) {
  const Result ref = attention_f64(problem, q, k, v, rule, empty_row_lse);
  Verdict verdict = compare(out, ref.out, attention_baseline(problem, q, k, v, rule),
                            {problem.dtype, 2, elements_of_sequences(problem, rule, ref.out)});
  if (lse != nullptr && same_shape(out, ref.out)) check_lse(*lse, ref, problem.lse_base, verdict);
  if (max_logits != nullptr) check_max_logits(*max_logits, ref, verdict);
  verdict.message = (verdict.ok ? "ok: " : "FAILED: ") + verdict.message;
  return verdict;
}

Verdict check_gradient(const std::string& name, DType dtype, const Tensor& out, const Tensor& ref,
                       const Tensor& baseline) {
  Verdict verdict = compare(out, ref, baseline, {dtype, 3, ref.values.size()});
  verdict.message = fmt::format("{} {}: {}", name, verdict.ok ? "ok" : "FAILED", verdict.message);
  return verdict;
}

}  // namespace fa2::reference
