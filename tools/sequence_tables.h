// How long sequences are, on the host and on the device.
#pragma once

#include <fa2/args.h>
#include <runtime/device_buffer.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace fa2::tools {

/// How many sequences a table has.
struct SequenceCount {
  const char* name;
  std::int64_t count;
};

/// Those that AttentionArgs has; empty ones are not given.
struct SequenceTables {
  std::vector<std::int32_t> cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k;
  std::vector<std::int32_t> page_table = {};  ///< a row a sequence
  std::int64_t pages_of_row = 0;

  /// Of every table that is given.
  std::vector<SequenceCount> counts() const;
  /// Of the first; nullopt: none is given.
  std::optional<SequenceCount> count() const;

  /// The fields of AttentionArgs for `problem`, pointers to memory of the host.
  AttentionArgs pointers(const AttentionProblem& problem) const;
};

/// varlen, total_q, total_k, seqlen_q, seqlen_k and page_size, for tensors with so many rows an entry. The longest packed
/// sequence is the table's.
void set_lengths(AttentionProblem& problem, const SequenceTables& tables, std::int64_t rows_q,
                 std::int64_t rows_k);

/// Judges tables as FA2_CHECK=1 does those of a call. `problem`: a valid one that set_lengths() gave its lengths.
/// @throws InvalidRequest listing what is wrong with them.
void require_sound(const SequenceTables& tables, const AttentionProblem& problem);

/// Tables in memory of the context that is current when it is made.
class DeviceTables {
 public:
  explicit DeviceTables(const SequenceTables& tables);

  /// Sets their pointers in arguments for `problem`.
  void add_to(AttentionArgs& args, const AttentionProblem& problem) const;

 private:
  SequenceTables host_;
  DeviceBuffer memory_;  ///< one after the other
};

}  // namespace fa2::tools
