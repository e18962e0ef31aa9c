// Sequence lengths that are read from files.
#pragma once

#include <tools/mistakes.h>
#include <tools/sequence_tables.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>

namespace fa2::tools {

/// `--cu-seqlens-q FILE`, `--page-table FILE`: an option for each of kTables.
struct SequenceOptions {
  std::map<std::string, std::string> files;  ///< by the name of the argument; absent: not given

  void add_to(CLI::App& verb);
  /// Reads the files. Notes each one that cannot be read, is not int32 with one dimension (a page table: two),
  /// or has no sequence offset.
  SequenceTables tables(Mistakes& mistakes) const;
};

}  // namespace fa2::tools
