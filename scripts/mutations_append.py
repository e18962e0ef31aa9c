"""Bugs of append(); see mutations.py."""
APPEND = "attention/rows/append.cuh"
CHUNKS = "attention/rows/row_chunks.cuh"

APPENDED_ROWS = [
    (APPEND, "neighbours turn together in either style", "if (tables.interleaved != 0) {", "if (tables.interleaved >= 0) {"),
    (APPEND, "turned the other way", "-(y * sin)), ptx::fma_rn(x, sin, y * cos)", "y * sin), ptx::fma_rn(-x, sin, y * cos)"),
    (APPEND, "the wrong half", "far = near + tables.dim / 2;", "far = near + 4;"),
    (APPEND, "columns behind rotary_dim turn too", "if (turns && chunk * 8 < params.rotary.dim)", "if (turns && params.rotary.dim > 0)"),
    (APPEND, "V turns as K does", "static_cast<int>(thread % kChunksOfV), false);", "static_cast<int>(thread % kChunksOfV), true);"),
    (APPEND, "all new rows at the position of the first", "position = static_cast<i64>(first) + number;", "position = first;"),
    (APPEND, "queries at positions of their own without a mask too", "params.causal_positions != 0 ? token.number : 0", "token.number"),
    (APPEND, "rows behind the end of the cache", "if (length < 0 || row >= cache.capacity) return false;", "if (length < 0) return false;"),
    (APPEND, "rows before the beginning of the cache", "if (length < 0 || row >= cache.capacity) return false;", "if (row >= cache.capacity) return false;"),
    (APPEND, "pages that the cache has not", "slot.entry >= 0 && slot.entry < cache.entry_count", "slot.entry >= 0"),
    (APPEND, "angles of positions that there are not", "return first >= 0 && position < tables.rows;", "return first >= 0;"),
    (APPEND, "pages of the first sequence for all", "token.sequence * cache.page_table_stride + page", "0 * cache.page_table_stride + page"),
    (APPEND, "the page of the row behind", "static_cast<int>(row) / cache.entry_rows;", "static_cast<int>(row + 1) / cache.entry_rows;"),
    (APPEND, "an empty sequence in the place of the next", "ptx::ld_global_s32(rows.borders + middle) <= row", "ptx::ld_global_s32(rows.borders + middle) < row"),
    (APPEND, "rows behind the last sequence", "begin <= row && row < ptx::ld_global_s32(border + 1);", "begin <= row;"),
    (CHUNKS, "places of 32 bits", "return batch * strides.batch_stride + ", "return static_cast<int>(batch * strides.batch_stride) + "),
]
