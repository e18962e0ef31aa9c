// Tables of sequence lengths, on the host and on the device.
#pragma once

#include <fa2/args.h>
#include <operation/operands/tensor_tables.h>
#include <runtime/device_buffer.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace fa2::tools {

/// A table and its number of sequences.
struct SequenceCount {
  const char* name;
  std::int64_t count;
};

using LengthTable = std::vector<std::int32_t>;

/// The tables of AttentionArgs. An empty one is not given. Each has an entry in kTables.
struct SequenceTables {
  LengthTable cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k;
  LengthTable page_table = {};  ///< one row per sequence
  std::int64_t pages_of_row = 0;

  /// Returns the count of every given table.
  std::vector<SequenceCount> counts() const;
  /// Returns the count of the first given table; nullopt if none is given.
  std::optional<SequenceCount> count() const;

  /// Returns the fields of AttentionArgs for `problem`, with pointers to host memory.
  AttentionArgs pointers(const AttentionProblem& problem) const;
};

/// A table, and the argument that points to it. The argument's row has its flag, its shape and its help.
struct TableMember {
  LengthTable SequenceTables::*values;
  const std::int32_t* AttentionArgs::*argument;

  const Tensor& tensor() const;
  bool is_used(const AttentionProblem& problem) const;
};
inline constexpr TableMember kTables[] = {{&SequenceTables::cu_seqlens_q, &AttentionArgs::cu_seqlens_q},
                                          {&SequenceTables::cu_seqlens_k, &AttentionArgs::cu_seqlens_k},
                                          {&SequenceTables::seqused_q, &AttentionArgs::seqused_q},
                                          {&SequenceTables::seqused_k, &AttentionArgs::seqused_k},
                                          {&SequenceTables::page_table, &AttentionArgs::page_table}};

/// Sets varlen, total_q, total_k, seqlen_q, seqlen_k and page_size, for tensors with these rows per batch
/// entry. For packed sequences, seqlen is the longest in the table.
void set_lengths(AttentionProblem& problem, const SequenceTables& tables, std::int64_t rows_q,
                 std::int64_t rows_k);

/// Checks tables as FA2_CHECK=1 checks a call's. `problem` must be valid, with lengths from set_lengths().
/// @throws InvalidRequest listing what is wrong with them.
void require_sound(const SequenceTables& tables, const AttentionProblem& problem);

/// The tables in device memory, allocated in the context that is current at construction.
class DeviceTables {
 public:
  explicit DeviceTables(const SequenceTables& tables);

  /// Points the arguments for `problem` at the tables.
  void add_to(AttentionArgs& args, const AttentionProblem& problem) const;

 private:
  SequenceTables host_;
  DeviceBuffer memory_;  ///< all tables, one after the other
};

}  // namespace fa2::tools
