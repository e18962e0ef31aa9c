// Device memory that all points of a benchmark share.
#pragma once

#include <fa2/args.h>
#include <runtime/device_buffer.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace fa2::tools {

/// Q, K and V of normally distributed values for every dtype in use, one O and a number a head for the variants, as
/// large as the largest problem needs; of packed sequences the lengths of mix_of(). Of the context that is current when
/// it is made.
class BenchInputs {
 public:
  explicit BenchInputs(const std::vector<AttentionProblem>& problems);

  /// Contiguous (batch, seqlen, heads, dim), or (total, heads, dim).
  AttentionArgs args(const AttentionProblem& problem) const;

 private:
  struct Tensors {
    DeviceBuffer q, k, v;
  };
  /// Batch, total and longest of one side of a problem.
  using Side = std::array<std::int64_t, 3>;

  void add_borders(const Side& side);
  const std::int32_t* borders_of(const Side& side) const;

  std::map<DType, Tensors> inputs_;
  std::map<Side, DeviceBuffer> borders_;
  DeviceBuffer o_, of_heads_;
};

}  // namespace fa2::tools
