// Lengths of sequences that are read from files.
#pragma once

#include <tools/sequence_tables.h>

#include <CLI/CLI.hpp>
#include <string>

namespace fa2::tools {

/// `--cu-seqlens-q FILE`, `--cu-seqlens-k FILE`, `--seqused-q FILE`, `--seqused-k FILE`, `--page-table FILE`.
struct SequenceOptions {
  std::string cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, page_table;

  void add_to(CLI::App& verb);
  /// @throws Error naming a file that cannot be read, or is not of int32 and one dimension (a page table: two), or has
  /// not even one border.
  SequenceTables tables() const;
};

}  // namespace fa2::tools
