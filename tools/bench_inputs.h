// Device memory that all points of a benchmark share.
#pragma once

#include <fa2/backward.h>
#include <runtime/device_buffer.h>
#include <tools/sequence_tables.h>

#include <cstdint>
#include <map>
#include <vector>

namespace fa2::tools {

/// What is measured.
enum class Direction : std::uint8_t { forward, backward };

/// Q, K and V of normally distributed values for every dtype in use, one O and a number a head for the variants, as
/// large as the largest problem needs, and the tables of varlen problems; for backwards dO of such values, one LSE and one
/// of each gradient too. Of the context that is current when it is made.
class BenchInputs {
 public:
  /// `copies`: of K and V of each problem, one after the other; 1 where it is not given.
  explicit BenchInputs(const std::vector<AttentionProblem>& problems, const SequenceTables& tables = {},
                       Direction direction = Direction::forward, const std::vector<int>& copies = {});

  /// Contiguous (batch, seqlen, heads, dim), (total, heads, dim) or pages. With LSE where there is one.
  AttentionArgs args(const AttentionProblem& problem, int copy = 0) const;
  /// What the forward writes has to be the problem's when they are used. All gradients; for Direction::backward.
  BackwardArgs backward_args(const AttentionProblem& problem) const;

 private:
  struct Tensors {
    DeviceBuffer q, k, v, d_o;
  };

  std::map<DType, Tensors> inputs_;
  DeviceBuffer o_, lse_, dq_, dk_, dv_, of_heads_;
  DeviceTables tables_;
};

}  // namespace fa2::tools
