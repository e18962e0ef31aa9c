// Sequence lengths that are read from files.
#pragma once

#include <tools/mistakes.h>
#include <tools/sequence_tables.h>

#include <CLI/CLI.hpp>
#include <string>

namespace fa2::tools {

/// `--cu-seqlens-q FILE`, `--cu-seqlens-k FILE`, `--seqused-q FILE`, `--seqused-k FILE`, `--page-table FILE`.
struct SequenceOptions {
  std::string cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, page_table;

  void add_to(CLI::App& verb);
  /// Reads the files. Notes each one that cannot be read, is not int32 with one dimension (a page table: two),
  /// or has no sequence offset.
  SequenceTables tables(Mistakes& mistakes) const;
};

}  // namespace fa2::tools
