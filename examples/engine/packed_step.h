// A step as the device reads it: packed tokens, and tables of the sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "../model/matrix.h"
#include "scheduler.h"

namespace example {

/// One matrix per layer; a row is a token.
using LayerRows = std::vector<Matrix<float>>;

/// Offsets of the tables in the one int32 buffer that a step uploads. They never change, because captured graphs keep the
/// addresses.
struct TableLayout {
  std::int64_t sequences = 1;  ///< most sequences of a step
  std::int64_t max_pages = 1;  ///< columns of the page table

  std::int64_t cu_seqlens() const { return 0; }  ///< (sequences + 1): where new tokens begin
  std::int64_t lengths_before() const {
    return sequences + 1;
  }  ///< (sequences): cached tokens before the step
  std::int64_t lengths_after() const { return lengths_before() + sequences; }  ///< (sequences): and after it
  std::int64_t page_table() const { return lengths_after() + sequences; }      ///< (sequences, max_pages)
  std::int64_t size() const { return page_table() + sequences * max_pages; }
};

struct PackedStep {
  Tokens tokens;                           ///< new tokens, packed one sequence after the other
  std::vector<std::int32_t> tables;        ///< as TableLayout says; sequences after the step's have no tokens
  std::vector<std::int64_t> sampled_rows;  ///< row of the last token of each part that samples
  std::int64_t sequences = 0;
  std::int64_t most = 0;  ///< most new tokens of a sequence
};

/// Returns the batch of a step.
PackedStep packed(const Step& step, const TableLayout& layout);

}  // namespace example
