// The one parameter of the kernel that appends to a cache. Host code includes this file too.
#pragma once

#include "attention/common/params.cuh"

namespace fa2 {

/// Rows of all sequences and heads.
struct TokenRows {
  const int* borders;  ///< (batch + 1) of packed rows, or null
  int batch;
  int heads;
  int seqlen;  ///< of each sequence, where rows are not packed
  int count;
};

/// What rows move from, and to.
struct MovedRows {
  const void* from;
  void* to;
  Strides from_strides;
  Strides to_strides;
};

/// Cosines and sines of the angles that columns turn by.
struct RotaryTables {
  const void* cos;
  const void* sin;
  const int* first;  ///< (batch): the position of row 0
  long long stride;
  int rows;
  int dim;  ///< columns that turn
  int interleaved;
  int are_float32;
};

/// Where the rows of a sequence lie. Without a page table an entry is one page.
struct CacheRows {
  const int* seqlens;     ///< (batch): rows that there are
  const int* entries;     ///< (batch): the entry of each, or null
  const int* page_table;  ///< or null
  long long page_table_stride;
  int entry_count;
  int entry_rows;
  int capacity;  ///< rows that a sequence may have
};

struct AppendParams {
  MovedRows k;
  MovedRows v;
  MovedRows q;
  TokenRows new_rows;
  TokenRows queries;
  CacheRows cache;
  RotaryTables rotary;
  int causal_positions;
};

}  // namespace fa2
