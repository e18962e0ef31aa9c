// Parameters of the append kernel. Host code includes this file too.
#pragma once

#include "attention/common/params.cuh"

namespace fa2 {

/// Rows of all sequences and heads.
struct TokenRows {
  const int* borders;  ///< (batch + 1): sequence offsets of packed rows; null: not packed
  int batch;
  int heads;
  int seqlen;  ///< rows per sequence; used if rows are not packed
  int count;   ///< rows in all sequences and heads
};

/// Source and destination of a copy.
struct MovedRows {
  const void* from;
  void* to;
  Strides from_strides;
  Strides to_strides;
  HeadFactors factors;  ///< of 8-bit rows, which are divided by them
};

/// Cosines and sines of rotary angles.
struct RotaryTables {
  const void* cos;
  const void* sin;
  const int* first;  ///< (batch): position of each sequence's row 0
  long long stride;
  int rows;
  int dim;  ///< rotated columns
  int interleaved;
  int are_float32;
};

/// Location of the cached rows. Without a page table, each batch entry is one page.
struct CacheRows {
  const int* seqlens;     ///< (batch): rows already in the cache
  const int* entries;     ///< (batch): batch entry of each sequence; null: its index
  const int* page_table;  ///< null: the cache is not paged
  long long page_table_stride;
  int entry_count;
  int entry_rows;
  int capacity;  ///< most rows per sequence
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
