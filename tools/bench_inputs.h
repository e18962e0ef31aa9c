// Device memory that all points of a benchmark share.
#pragma once

#include <fa2/args.h>
#include <runtime/device_buffer.h>
#include <tools/sequence_tables.h>

#include <map>
#include <vector>

namespace fa2::tools {

/// Q, K and V of normally distributed values for every dtype in use, one O and a number a head for the variants, as
/// large as the largest problem needs, and the tables of varlen problems. Of the context that is current when it is made.
class BenchInputs {
 public:
  explicit BenchInputs(const std::vector<AttentionProblem>& problems, const SequenceTables& tables = {});

  /// Contiguous (batch, seqlen, heads, dim), or (total, heads, dim).
  AttentionArgs args(const AttentionProblem& problem) const;

 private:
  struct Tensors {
    DeviceBuffer q, k, v;
  };

  std::map<DType, Tensors> inputs_;
  DeviceBuffer o_, of_heads_;
  DeviceTables tables_;
};

}  // namespace fa2::tools
