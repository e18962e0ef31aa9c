// How exact outputs are compared with the fused baseline, over many cases.
#pragma once

#include <doctest/doctest.h>
#include <reference/attention_reference.h>

#include <cmath>

namespace fa2::test {

/// Geometric means of a kernel's errors divided by the fused baseline's. If the baseline is exact, for
/// example with one key per row, the kernel must be exact too, and the case does not count.
class ErrorRatios {
 public:
  void add(const reference::Errors& errors, const reference::Errors& baseline) {
    if (baseline.largest == 0) {
      CHECK(errors.largest == 0);
      return;
    }
    rms_ += std::log(errors.rms / baseline.rms);
    largest_ += std::log(errors.largest / baseline.largest);
    ++count_;
  }
  int count() const { return count_; }

  /// CHECKs the contract of peaked rows. At least one case must count.
  void expect_contract() const {
    CHECK(std::exp(rms_ / count_) <= 1.10);
    CHECK(std::exp(largest_ / count_) <= 1.5);
  }

 private:
  double rms_ = 0, largest_ = 0;
  int count_ = 0;
};

}  // namespace fa2::test
