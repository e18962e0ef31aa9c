"""Bugs of the backward of five products on mma.sync, for mutations.py: (file, bug, old, new)."""

BACKWARD80 = "attention/backward/sm80/kernel.cuh"
SPLIT80 = "attention/backward/sm80/split.cuh"
QUERY_GRADIENT80 = "attention/backward/sm80/query_gradient.cuh"
SUMS80 = "attention/backward/sm80/sums.cuh"
CONVERT80 = "attention/backward/sm80/convert.cuh"
BACKWARD_RING = "attention/backward/sm80/ring.cuh"

FIVE_PRODUCTS = [
    # The backward of five products on mma.sync: dS on its way from each warp to all.
    (BACKWARD80, "dQ of a block's own dS, which other warps have not yet", "dq.add(head, n + 1);", "dq.add(head, n);"),
    (BACKWARD80, "dQ of the block before, before the barrier behind its dS",
     "      ring.await(n);\n      if (n + 1 < ring.blocks.end) dq.add(head, n + 1);\n",
     "      if (n + 1 < ring.blocks.end) dq.add(head, n + 1);\n      ring.await(n);\n"),
    (QUERY_GRADIENT80, "dS written where it is still read", "(n & 1) * Layout::ScoreTile::bytes", "0 * n"),
    (QUERY_GRADIENT80, "dQ of the last block before all warps have written its dS", "    ptx::bar_sync();\n    if (!ring", "    if (!ring"),
    (QUERY_GRADIENT80, "dQ of the last block forgotten", "    if (!ring.blocks.is_empty()) add(head, ring.blocks.begin);\n", ""),
    (QUERY_GRADIENT80, "dQ: rows of another warp", "{warp % row_groups * rows,", "{warp / row_groups * rows,"),
    (QUERY_GRADIENT80, "dQ: columns that are another row's, where warps do not go round", "are_equal || first_col + col < kCols", "true || first_col + col < kCols"),
    # The two owners of the same keys.
    (SPLIT80, "P read before the other warp has sent it", "    ptx::bar_sync(1 + pair, 64);\n", ""),
    (SPLIT80, "dS written over weights that other lanes still read", "    ptx::bar_warp_sync();  // dS takes the place of the weights\n", ""),
    (SPLIT80, "P sent where a derivative is wanted", "      send_weights(weights, n);\n", "      send_weights(scores, n);\n"),
    (SPLIT80, "weights of the first 16 keys for all", "(warp_row + 16 * m) * width * 2", "(warp_row + 0 * m) * width * 2"),
    (BACKWARD80, "pairs of neighbouring warps", "pair = warp % Split::owners;", "pair = warp / 2;"),
    # Its sums and its results.
    (SUMS80, "blocks of dQ lie over each other", "+ 16 * col +", "+ 8 * col +"),
    (SUMS80, "single adds: four to one lane's neighbours", "ptx::red_add_global_f32(block + 32 * i,", "ptx::red_add_global_f32(block + i,"),
    (BACKWARD80, "exponents of delta, not of LSE", "{delta + params.statistic_count, delta},", "{delta, delta},"),
    (BACKWARD_RING, "rows that fill up the last block of queries have an LSE of 0", "Config::sums_dq || seen.has(row) ? 4 : 0", "seen.has(row) ? 4 : 0"),
    (BACKWARD80, "groups of every n-th query head, five products", "at.head * attention.queries_per_kv + i,", "at.head + i * params.heads_kv,"),
    (BACKWARD80, "keys that no query sees are loaded", "queries.mask.seen_rows(first_row());", "RowsWithin{0, shape().seqlen_k - first_row()};"),
    (BACKWARD80, "dK and dV written over K that others still read", "    await_own_tiles();\n", ""),
    (BACKWARD80, "dK, of five products, without the scale", "dk, params.attention.scale,", "dk, 1.0f,"),
    (BACKWARD80, "dV, of five products, with the scale", "dv, 1.0f,", "dv, params.attention.scale,"),
    (CONVERT80, "dQ, of five products, without the scale", "attention.scale,", "1.0f,"),
    (CONVERT80, "dQ stored after the last query", "shape.seqlen_q - tile_row);\n}", "Config::tile_m);\n}"),
]
