// Tables of the sequences that a rank's kernels compute.
#pragma once

#include <fa2/args.h>
#include <parallel/device_tables.h>
#include <parallel/rank_work.h>

#include <cstddef>
#include <optional>

namespace fa2 {

class SequenceTables {
 public:
  SequenceTables() = default;
  /// Adds the tables of `work` to `tables`.
  SequenceTables(const RankWork& work, DeviceTables& tables);

  /// Sets the arguments that tell kernels of the sequences, in entries of the rank's tensors.
  void set(AttentionArgs& args, const RankWork& work, const DeviceTables& tables) const;

 private:
  std::optional<std::size_t> cu_seqlens_q_, cu_seqlens_k_, pieces_;
};

}  // namespace fa2
