"""Bugs of packed sequences in the backward on wgmma; see mutations.py."""
BACKWARD_PIPELINE90 = "attention/backward/sm90/pipeline.cuh"
BACKWARD_ROWS90 = "attention/backward/sm90/rows.cuh"
BACKWARD_SUMS = "attention/backward/sums.cuh"
CONVERT = "attention/backward/convert.cuh"
DELTA = "attention/backward/delta.cuh"

BACKWARD_VARLEN90 = [
    (BACKWARD_SUMS, "sums of dQ begin in the tile where the neighbour's end", "(batch - shape.q_entry) + shape.q_begin / queries", "shape.q_begin / queries"),
    (BACKWARD_SUMS, "delta and sums of the tensor's first sequence", "(batch - shape.q_entry) + shape.q_begin / queries", "0"),
    (DELTA, "nothing fills up a sequence's last tile", "< shape.seqlen_q ? begin + Config::tile_m : filled_up;", "< shape.seqlen_q ? begin + Config::tile_m : shape.seqlen_q;"),
    (BACKWARD_ROWS90, "the next sequence's rows read and written",
                      "  if constexpr (!Config::varlen) return rows;\n  return {rows.begin + end, longest - end + rows.row,",
                      "  if constexpr (!Config::varlen) return rows;\n  return {rows.begin + longest, rows.row,"),
    (BACKWARD_ROWS90, "keys after the last that a query sees", "work.queries.mask.seen_rows(0).end", "shape.seqlen_k"),
    (BACKWARD_ROWS90, "keys before a window's first that a query sees", "{seen.begin - 64 * tile, seen.end", "{0, seen.end"),
    (BACKWARD_ROWS90, "tiles of keys that no query sees are loaded", "seen <= 64 * (tiles - 1) ? (seen + 63) / 64 : tiles;", "tiles;"),
    (BACKWARD_ROWS90, "values that nobody loaded", "    if (tile >= loaded) clear_rows_outside<kThreads>(shared.values(tile), RowsWithin{0, 0}, thread);\n", ""),
    (BACKWARD_ROWS90, "K read while others clear it", "  await_others<Config>(warpgroup);\n", ""),
    (CONVERT, "dQ of the neighbour's sums", "first_sum_tile(shape, at.batch, Config::tile_m) + at.q_tile", "first_sum_tile(shape, at.batch, 2 * Config::tile_m) + at.q_tile"),
    (BACKWARD_PIPELINE90, "a block beyond the last tile computes one", "Config::varlen && block >= tiles.count() ? kNoTile : tiles.at(block)", "tiles.at(Config::varlen && block >= tiles.count() ? 0 : block)"),
]
