"""Bugs that authors of attention kernels really make, each as a change of one place in templates/."""
from collections import namedtuple

from mutations_append import APPENDED_ROWS
from mutations_backward_varlen90 import BACKWARD_VARLEN90
from mutations_dropout import DROPOUT
from mutations_five_products import FIVE_PRODUCTS
from mutations_merge import MERGED_PARTS
from mutations_pages import KEY_PAGES, PAGES
from mutations_softcap import CAPPED_SCORES
from mutations_split_keys import SPLIT_KEYS

# `old`, whose text occurs exactly once in templates/`file`, becomes `new`. Tests whose names begin with `first` run first.
Mutation = namedtuple("Mutation", "file bug old new first", defaults=[""])


def variant(*mutation):
    return Mutation(*mutation, first="variants")


def hopper(*mutation):
    return Mutation(*mutation, first="main loop 90")


def varlen(*mutation):
    return Mutation(*mutation, first="varlen")


def backward(*mutation):
    return Mutation(*mutation, first="backward")


def backward90(*mutation):
    return Mutation(*mutation, first="backward on wgmma")


def five(*mutation):
    return Mutation(*mutation, first="backward of five products")


RING = "attention/forward/sm80/key_value_ring.cuh"
FORWARD = "attention/forward/sm80/kernel.cuh"
HEAD_ROWS = "attention/common/head_rows.cuh"
MAINLOOP = "attention/forward/sm80/mainloop.cuh"
MASK = "attention/common/mask.cuh"
BLOCKS = "attention/common/key_blocks.cuh"
SEQUENCE = "attention/common/sequence.cuh"
SCORE_MOD = "attention/common/score_mod.cuh"
SOFTCAP = "attention/common/softcap.cuh"
ALIBI = "attention/common/alibi.cuh"
SINKS = "attention/common/sinks.cuh"
SOFTMAX = "attention/common/softmax.cuh"
QUERY = "attention/forward/sm80/query_operand.cuh"
EPILOGUE = "attention/common/epilogue.cuh"
SCHEDULER = "attention/common/scheduler.cuh"
TILES = "attention/common/varlen_tiles.cuh"
SIDES = "attention/common/tile_sides.cuh"
COPY = "tile/copy.cuh"
GEMM = "tile/gemm.cuh"
REGISTERS = "tile/register_tile.cuh"
SHARED = "tile/shared_tile.cuh"
MAINLOOP90 = "attention/forward/sm90/mainloop.cuh"
FORWARD90 = "attention/forward/sm90/kernel.cuh"
PIPELINE = "attention/forward/sm90/pipeline.cuh"
PRODUCER = "attention/forward/sm90/producer.cuh"
CONSUMER = "attention/forward/sm90/consumer.cuh"
STORE = "attention/forward/sm90/epilogue.cuh"
SCHEDULE = "attention/forward/sm90/tile_schedule.cuh"
SWIZZLED = "tile/swizzled_tile.cuh"
TMA = "tile/tma_copy.cuh"
DELTA = "attention/backward/delta.cuh"
BACKWARD_RING = "attention/backward/sm80/ring.cuh"
BACKWARD_STORE = "attention/backward/sm80/store.cuh"
D_SINKS = "attention/backward/sinks.cuh"
DQ = "attention/backward/sm80/queries.cuh"
DK_DV = "attention/backward/sm80/keys.cuh"
QUERIES_OF_KEYS = "attention/backward/queries_of_keys.cuh"
SCORE_GRADIENT = "attention/backward/score_gradient.cuh"
BACKWARD90 = "attention/backward/sm90/kernel.cuh"
BACKWARD_MAINLOOP90 = "attention/backward/sm90/mainloop.cuh"
BACKWARD_PIPELINE90 = "attention/backward/sm90/pipeline.cuh"
BACKWARD_TURNS90 = "attention/backward/sm90/turns.cuh"
BACKWARD_PRODUCER90 = "attention/backward/sm90/producer.cuh"
QUERY_GRADIENT90 = "attention/backward/sm90/query_gradient.cuh"
CONVERT = "attention/backward/convert.cuh"
BACKWARD_SUMS = "attention/backward/sums.cuh"
WGMMA = "tile/wgmma_gemm.cuh"

TRUNCATE = """    for (int i = 0; i < 4; ++i) {
      const float(&v)[4] = tile.value[m][2 * step + i / 2];
      u32 low, high;
      __builtin_memcpy(&low, &v[i % 2 * 2], 4);
      __builtin_memcpy(&high, &v[i % 2 * 2 + 1], 4);
      a.pair[m][i] = __is_same(Element, BFloat16) ? low >> 16 | (high & 0xffff0000u)
                                                  : ptx::cvt_rn_x2<Element>(v[i % 2 * 2], v[i % 2 * 2 + 1]);
    }
"""

MUTATIONS = [
    # Barriers.
    Mutation(RING, "no barrier after the wait for K", "Config::stages - 2>();\n    Team::sync();", "Config::stages - 2>();"),
    Mutation(RING, "one slot: no barrier after the wait for V", "wait_group<0>();\n      Team::sync();", "wait_group<0>();"),
    Mutation(FORWARD, "no barrier between the wait for Q and its use", "  }\n  ptx::bar_sync();\n  if constexpr", "  }\n  if constexpr"),
    Mutation(FORWARD, "no barrier before the ring overwrites Q", "    ptx::bar_sync();  // the ring overwrites Q\n", ""),
    Mutation(FORWARD, "warps without rows of their own return early", "  MainloopSm80<Config> mainloop;\n",
             "  if (tile_row + warp_row >= params.seqlen_q) return;\n  MainloopSm80<Config> mainloop;\n"),
    Mutation(EPILOGUE, "no barrier before O reuses the memory of K and V",
             "  ptx::bar_sync();  // the tile lies where other warps may still be reading K and V\n", ""),
    Mutation(EPILOGUE, "no warp barrier between writing O to shared memory and reading it", "  ptx::bar_warp_sync();\n", ""),
    # Asynchronous copies and the ring's slots.
    Mutation(RING, "waits until stages - 1 groups are left, not stages - 2", "Config::stages - 2>", "Config::stages - 1>"),
    Mutation(RING, "one slot: V is not waited for", "      ptx::cp_async_wait_group<0>();\n", ""),
    Mutation(FORWARD, "Q in registers: Q is not waited for", "    ptx::cp_async_wait_group<0>();\n", ""),
    Mutation(FORWARD, "Q in shared memory: its wait leaves one group too many", "::started_groups>()", "::started_groups + 1>()"),
    Mutation(RING, "no empty group once there are no blocks left to fetch",
             "    }\n    ptx::cp_async_commit_group();\n  }\n\n  template", "      ptx::cp_async_commit_group();\n    }\n  }\n\n  template"),
    Mutation(RING, "fetches into the slot that is being read", "current == 0 ? Config::stages - 1 : current - 1", "current"),
    Mutation(RING, "fetches one block too far ahead", "next = n - started_groups;", "next = n - Config::stages;"),
    Mutation(RING, "stale stage: the ring never advances", "current = current + 1 == Config::stages ? 0 : current + 1", "current = 0"),
    Mutation(RING, "the last block of K and V is loaded without a bound", "return RowsBefore{blocks.key_end - first};", "return EveryRow{};"),
    Mutation(RING, "one slot: V is loaded without a bound", "Values::block(v, n), outer_rows(n))", "Values::block(v, n), inner_rows(n))"),
    # Which keys, rows, heads.
    Mutation(MASK, "mask off by one key: > for >=", "col >= end", "col > end"),
    Mutation(MASK, "a query does not see its own key", "const int end = diagonal + 1 < shape.seqlen_k ? diagonal + 1", "const int end = diagonal < shape.seqlen_k ? diagonal"),
    Mutation(MASK, "bottom-right offset lost", "query : query - shape.seqlen_q + shape.seqlen_k", "query : query"),
    Mutation(MASK, "bottom-right offset in a top-left mask", "? query : query -", "? query - shape.seqlen_q + shape.seqlen_k : query -"),
    Mutation(REGISTERS, "mask of the fragment's halves swapped", "8 * half + fragment_row()", "8 * (1 - half) + fragment_row()"),
    Mutation(MASK, "mask ignores the fragment's column", "end_of(row) - first_col - fragment_col();", "end_of(row) - first_col;"),
    Mutation(MAINLOOP, "mask in the last key block only", "      blocks.hide_keys(", "      if (n == blocks.end - 1) blocks.hide_keys("),
    Mutation(FORWARD, "mask without the warp's rows", "run(mask, score_mod, dropout, tile_row + warp_row,", "run(mask, score_mod, dropout, tile_row,"),
    Mutation(BLOCKS, "first masked block one too late", "mask.visible_end(first_row) / Config::tile_n", "mask.visible_end(first_row) / Config::tile_n + 1"),
    Mutation(BLOCKS, "first masked block of the tile's last row", "mask.visible_end(first_row) /", "mask.visible_end(next_row - 1) /"),
    Mutation(BLOCKS, "number of key blocks rounded down", "(key_end + Config::tile_n - 1) / Config::tile_n", "key_end / Config::tile_n"),
    Mutation(BLOCKS, "last key of a tile's range lost", "mask.visible_end(next_row - 1) : 0", "mask.visible_end(next_row - 1) - 1 : 0"),
    Mutation(BLOCKS, "keys of rows beyond seqlen_q are loaded", "first_row + rows < mask.rows() ? first_row + rows : mask.rows()",
             "first_row + rows"),
    Mutation(FORWARD, "key head = query head modulo the group", "at.head / params.queries_per_kv", "at.head % params.queries_per_kv"),
    Mutation(HEAD_ROWS, "batch stride where the head's belongs", "head * strides.head_stride", "head * strides.batch_stride"),
    Mutation(HEAD_ROWS, "offset of a batch in 32 bits", "+ batch * strides.batch_stride +", "+ static_cast<int>(batch * strides.batch_stride) +"),
    Mutation(PAGES, "offset of a block's rows in 32 bits", "static_cast<i64>(n) * Config::tile_n * rows.stride", "static_cast<int>(n * Config::tile_n * rows.stride)"),
    Mutation(SCHEDULER, "last section as wide as the others", "left < heads_per_section ? left : heads_per_section",
             "heads_per_section"),
    Mutation(EPILOGUE, "LSE written beyond seqlen_q", "      if (row >= shape.rows) continue;\n", ""),
    Mutation(COPY, "O written beyond seqlen_q", "row >= row_count || col >= kCols", "col >= kCols"),
    Mutation(COPY, "O written beyond head_dim_v", "row >= row_count || col >= kCols", "row >= row_count"),
    Mutation(COPY, "zero fill of missing rows and columns forgotten", "from + (page - start), exists ? 16 : 0", "from + (page - start), 16"),
    Mutation(COPY, "columns beyond head_dim are read", "(whole_page || page + chunk * 8 < kSourceCols) && ", ""),
    Mutation(COPY, "element-wise loads one row too far",
             "exists = rows.has(row) && col < kSourceCols;\n    ptx::st_shared", "exists = rows.has(row - 1) && col < kSourceCols;\n    ptx::st_shared"),
    Mutation(COPY, "a last partial pass runs past the tile", "      if (kRows % rows_per_pass != 0 && row >= kRows) break;\n", ""),
    # Fragments and swizzles.
    Mutation(SHARED, "swizzle missing where tiles are written", "((chunk ^ swizzle(row, width)) << 4)", "(chunk << 4)"),
    Mutation(SHARED, "swizzle missing where fragments are read", "((lane_chunk ^ swizzle(lane_row, width)) << 4)", "(lane_chunk << 4)"),
    Mutation(SHARED, "swizzle of 32 columns by the row, not by pairs of rows", "(row >> 1) & 3", "row & 3"),
    Mutation(SHARED, "column added to the swizzled address, not XORed", "(lane_address ^ static_cast<u32>", "(lane_address + static_cast<u32>"),
    Mutation(GEMM, "V without .trans", "ldmatrix_x4_trans(block", "ldmatrix_x4(block"),
    Mutation(GEMM, "K's blocks numbered down the rows", "BlockOrder::across", "BlockOrder::down"),
    Mutation(GEMM, "V's blocks numbered across the columns", "BlockOrder::down", "BlockOrder::across"),
    Mutation(REGISTERS, "registers of the A operand swapped", "2 * step + i / 2]", "2 * step + i % 2]"),
    Mutation(REGISTERS, "lower half of O's fragment written over the upper", "chunk_address(row + 8, 8 * n)", "chunk_address(row, 8 * n)"),
    # Softmax and numerics.
    Mutation(MAINLOOP, "scores are not cleared", "      scores.clear();\n", ""),
    Mutation(FORWARD, "the output is not cleared", "  mainloop.output.clear();\n", ""),
    Mutation(MAINLOOP, "no rescale of the output when the maximum rises", "if (softmax.step(scores)) softmax.rescale(output);",
             "softmax.step(scores);"),
    Mutation(SOFTMAX, "no rescale of the row sum when the maximum rises",
             "after[m][half] - before[m][half]);\n      row_sum[m][half] *= correction[m][half];\n", "after[m][half] - before[m][half]);\n"),
    Mutation(SOFTMAX, "row maximum over two of a quad's lanes", "    x = ptx::max_f32(x, ptx::shfl_bfly(x, 1));\n", ""),
    Mutation(SOFTMAX, "row maximum over even columns only", "ptx::max_f32(even, odd)", "even"),
    Mutation(SOFTMAX, "every lane of a quad raises to a maximum of its own", "quad_maximum(highest[m][half])", "highest[m][half]"),
    Mutation(SOFTMAX, "row sum over two of a quad's lanes", "      total += ptx::shfl_bfly(total, 2);\n", ""),
    Mutation(SOFTMAX, "scale applied to the scores twice", "return ptx::fma_rn(score, scale_log2, add);", "return ptx::fma_rn(score * scale_log2, scale_log2, add);"),
    Mutation(SOFTMAX, "LSE in base 2: ln 2 forgotten", "(log2_sum - offset[m][half]) * kLn2", "log2_sum - offset[m][half]"),
    Mutation(SOFTMAX, "LSE of a row without keys computed", "    if (row_sum[m][half] == 0.0f) return empty_row;\n", ""),
    Mutation(SOFTMAX, "division by the sum of a row without keys", "total == 0.0f ? 0.0f : ptx::rcp_rn(total)", "ptx::rcp_rn(total)"),
    Mutation(SOFTMAX, "-inf + inf in a row without keys", "offset[m][half] == ptx::infinity() ? 0.0f : offset[m][half]", "offset[m][half]"),
    Mutation(SOFTMAX, "a maximum raised only where 16 bits would overflow", "ptx::lg2_approx(tolerable(2.0f * row_sum[m][half]))",
             "ptx::lg2_approx(128.0f * Unit::value)"),
    Mutation(SOFTMAX, "a bfloat16 probability of 1 for the maximum: large values overflow", "value = 0x1p-24f, log2 = -24.0f", "value = 1.0f, log2 = 0.0f"),
    # Scores of large magnitude.
    Mutation(SOFTMAX, "exponents of thousands rounded before the maximum is subtracted", "kLargestExponent = 2048.0f", "kLargestExponent = 1e38f"),
    Mutation(SOFTMAX, "large scores: the maximum is not subtracted", "    if (!near) subtract_maximum(scores);\n", ""),
    Mutation(SOFTMAX, "large scores: correction without the scale", "(offset[m][half] - before) * scale_log2", "offset[m][half] - before"),
    Mutation(SOFTMAX, "large scores: the offset keeps its old unit", "near ? (offset[m][half] - Unit::log2) * unscale : offset[m][half]",
             "offset[m][half]"),
    Mutation(SOFTMAX, "large scores: NaN for a row that has seen no key", "ptx::min_f32((offset[m][half] - before) * scale_log2, 0.0f)",
             "(offset[m][half] - before) * scale_log2"),
    Mutation(SOFTMAX, "large scores: LSE as of small ones", "    if (near) return (log2_sum", "    return (log2_sum"),
    Mutation(SCORE_MOD, "scores not negated for a negative scale", "      scores.negate();\n", ""),
    # Windows, softcap, ALiBi, sinks.
    variant(MASK, "window: its first key is not seen", "diagonal_of(row) - window_left;", "diagonal_of(row) - window_left + 1;"),
    variant(MASK, "window: one key too many after the diagonal", "- diagonal - window_right;", "- diagonal - window_right - 1;"),
    variant(MASK, "window: keys before it are not masked", "if (col < begin) score", "if (begin > (1 << 30)) score"),
    variant(BLOCKS, "window: the first block is left out", "ptx::shfl_idx(blocks.begin, 0)", "ptx::shfl_idx(blocks.begin + 1, 0)"),
    variant(BLOCKS, "window: blocks at its beginning are not masked for the last rows", "(mask.visible_begin(next_row - 1) + Config", "(mask.visible_begin(first_row) + Config"),
    variant(RING, "window: values before it are loaded", "return RowsWithin{blocks.key_begin - first,", "return RowsWithin{-Config::tile_n,"),
    variant(PRODUCER, "window: tensor maps that begin at its first key are taken for whole ones", "Config::window_left ? params.attention.first_key : 0", "0"),
    variant(MAINLOOP90, "window: keys below a warpgroup's own are not passed over", "int unread = 2 * (lowest - loaded.begin);", "int unread = 0;"),
    variant(MAINLOOP90, "window: a block with hidden keys is guessed like a whole one", "blocks.hides_first_keys(n) || !in_series", "!in_series"),
    variant(SOFTCAP, "softcap: the series for scores beyond it", "largest_magnitude(scores) > params.series_end", "false"),
    variant(SCORE_MOD, "softcap: the series for scores beyond it, in a guess", "last_term >= ptx::bits_of(mod.params.softcap.last_term)", "true"),
    variant(SOFTCAP, "softcap: tanh of half the score", "from_power(s * params.exponent)", "from_power(s * (0.5f * params.exponent))"),
    variant(SOFTCAP, "softcap: the series without its last term", "ptx::fma_rn(term, term, params.constant)", "ptx::fma_rn(term, params.shift, params.constant)"),
    variant(ALIBI, "ALiBi: slope of the key/value head's first query head", "slope_of_head(query_head<Config>(at, 0))", "slope_of_head(at.head / params.queries_per_kv * Config::packed_heads)"),
    variant(ALIBI, "ALiBi: slopes of the first batch for all", "at.batch * params.alibi_batch_stride + head", "head"),
    variant(ALIBI, "ALiBi: signed distance", "ptx::abs_f32(distance), s", "distance, s"),
    variant(ALIBI, "ALiBi: distance from the beginnings' diagonal", "(row) + shape.seqlen_k -", "(row) + shape.seqlen_q -"),
    variant(ALIBI, "ALiBi: a block that the diagonal crosses is taken for one before it", "first_key + 8 * kN - 1 <= diagonal", "first_key <= diagonal"),
    variant(ALIBI, "ALiBi: a block that the diagonal crosses is taken for one after it", "diagonal(first_row + 16 * kM - 1)", "diagonal(first_row)"),
    variant(SCORE_MOD, "ALiBi: the same offset for every block", "static_cast<float>(mod.alibi.diagonal(row) - first_col)", "0.0f"),
    variant(SINKS, "sink in the wrong base", "query_head<Config>(at, row)) * kLog2E", "query_head<Config>(at, row))"),
    variant(SINKS, "sink of the first head", "params.sinks + query_head<Config>(at, row))", "params.sinks)"),
    variant(SOFTMAX, "sink does not share in the output", "factor *= merge(m, half, sinks(m, half));", "merge(m, half, sinks(m, half));"),
    variant(SOFTMAX, "sink does not count in the LSE", "    offset[m][half] = -both;", "    offset[m][half] = -own;"),
    Mutation(REGISTERS, "bfloat16 probabilities truncated, not rounded",
             """    for (int i = 0; i < 4; ++i) {
      const float(&v)[4] = tile.value[m][2 * step + i / 2];
      a.pair[m][i] = ptx::cvt_rn_x2<Element>(v[i % 2 * 2], v[i % 2 * 2 + 1]);
    }
""", TRUNCATE),
    # Main loop 90: wgmma and its registers.
    hopper(MAINLOOP90, "no wgmma.fence before P V", "    ptx::wgmma_fence();\n    wgmma_nn", "    wgmma_nn"),
    hopper(MAINLOOP90, "overlap: the wait for Q K^T leaves one group too many", "wgmma_wait_group<1>", "wgmma_wait_group<2>"),
    hopper(MAINLOOP90, "overlap: output rescaled while P V adds to it", "      const bool rises = softmax_of(n, own, keys);\n",
           "      bool rises = softmax_of(n, own, keys);\n      if (rises) softmax.rescale(output);\n      rises = false;\n"),
    hopper(MAINLOOP90, "overlap: the late rescale forgotten", "if (rises) softmax.rescale(output);", "static_cast<void>(rises);"),
    hopper(MAINLOOP90, "in sequence: P V is not waited for", "      issue_output(values);\n      ptx::wgmma_wait_group<0>();\n",
           "      issue_output(values);\n"),
    # Main loop 90: slots, buffers and their mbarriers.
    hopper(MAINLOOP90, "overlap: V's slot released before P V has ended",
           "      drop(n);\n      ptx::wgmma_wait_group<0>();\n      hold(output);\n      ring.consumer_release(values);\n",
           "      drop(n);\n      ring.consumer_release(values);\n      ptx::wgmma_wait_group<0>();\n      hold(output);\n"),
    hopper(MAINLOOP90, "K's slot released before scores are computed again",
           "      const bool rises = softmax_of(n, own, keys);\n      ring.consumer_release(keys);\n",
           "      ring.consumer_release(keys);\n      const bool rises = softmax_of(n, own, keys);\n"),
    hopper(PIPELINE, "a skipped slot released before it is loaded", "    consumer_wait(at);  // else it would be counted as one that had read what was in the slot before\n", ""),
    hopper(PIPELINE, "a slot is empty after an arrival a warpgroup, not a warp", "shared.slot_empty(slot), kConsumerWarps)",
           "shared.slot_empty(slot), kConsumerWarps / 4)"),
    hopper(PRODUCER, "waits for a reader of a slot that was never loaded", "state.phase ^ 1", "state.phase"),
    hopper(PRODUCER, "expects the bytes of one warpgroup's queries", "Layout::warpgroups * Layout::QueryTile::bytes", "Layout::QueryTile::bytes"),
    hopper(PRODUCER, "overlap: values of a block before the keys of the next",
           "        if (Config::overlap && n > blocks.begin) load_keys(mask, at, below);\n        load_values(mask, at, here);\n",
           "        load_values(mask, at, here);\n        if (Config::overlap && n > blocks.begin) load_keys(mask, at, below);\n"),
    # Main loop 90: the output's way through shared memory.
    hopper(STORE, "fence.proxy.async after the barrier, not before",
           "    ptx::fence_proxy_async_shared();\n    ptx::bar_sync(own_barrier(warpgroup), 128);\n",
           "    ptx::bar_sync(own_barrier(warpgroup), 128);\n    ptx::fence_proxy_async_shared();\n"),
    hopper(STORE, "no barrier before the TMA store", "_shared();\n    ptx::bar_sync(own_barrier(warpgroup), 128);\n", "_shared();\n"),
    hopper(STORE, "head_dim != head_dim_v: output staged over queries that other warps read",
           "      ptx::bar_sync(own_barrier(warpgroup), 128);  // this warp's output lies where others' queries do\n", ""),
    hopper(STORE, "queries' buffer released before the TMA store has read it", "      ptx::bulk_wait_group_read<0>();\n", ""),
    hopper(MAINLOOP90, "a tile without keys keeps the queries' buffer before", "    if (loaded.is_empty()) {\n      store.finish_before();\n", "    if (loaded.is_empty()) {\n"),
    hopper(FORWARD90, "setmaxnreg by one warp of the producer's warpgroup",
           "    ptx::setmaxnreg_dec<Config::producer_registers>();\n    produce",
           "    if (ptx::warp_index() != 0) return;\n    ptx::setmaxnreg_dec<Config::producer_registers>();\n    "),
    # Main loop 90: which tile, which row, which head.
    hopper(SCHEDULE, "the counter of tiles does not return to 0", "counters, tiles.count() - 1)", "counters, tiles.count())"),
    hopper(SCHEDULE, "number of the next tile read without a wait", "    ptx::mbarrier_wait(shared.tile_full(place), turn.parity(2));\n", ""),
    hopper(SEQUENCE, "packed heads: mask by the row, not by its query", "static_cast<int>(static_cast<u32>(row) / Config::packed_heads)", "row"),
    hopper(EPILOGUE, "packed heads: LSE as if rows were grouped by heads",
           "(first_head + RowMap<Config>::head(row)) * entry_rows + shape.q_begin +\n         RowMap<Config>::query(row)",
           "(first_head + row / params.seqlen_q) * params.seqlen_q + row % params.seqlen_q"),
    hopper(TMA, "packed heads: TMA coordinate of the row, not of its query", "at.row / kPackedHeads", "at.row"),
    # Main loop 90: swizzles and matrix descriptors.
    hopper(SWIZZLED, "narrow swizzles by the row, not by the rows of 128 bytes", "row / kRowsOfPattern % (span / 16)", "row % (span / 16)"),
    hopper(SWIZZLED, "V's matrix descriptor: leading and stride offset swapped", "(base, group_bytes, 8 * span)", "(base, 8 * span, group_bytes)"),
    # The speculative maximum.
    hopper(MAINLOOP90, "scores beyond any power of two are not computed again", "if (guess(n, blocks, rises)) return rises;",
           "guess(n, blocks, rises);\n        return rises;"),
    hopper(MAINLOOP90, "speculation does not tell that the output must be rescaled", "return rises;\n        // A", "return false;\n        // A"),
    hopper(MAINLOOP90, "rows that saw no key yet are speculated on", "return !blocks.hides_last_keys(n) && softmax.settled;", "return !blocks.hides_last_keys(n);"),
    hopper(SOFTMAX, "large scores are speculated on", "settled = near && !ptx", "settled = !ptx"),
    hopper(SOFTMAX, "speculation: a dominating key is not looked for", "tolerated[m][half] = tolerable(4.0f * row_sum[m][half])",
           "tolerated[m][half] = 128.0f * Unit::value"),
    hopper(SOFTMAX, "speculation: a dominating key is not found", "<= tolerable(2.0f * row_sum[m][half]))", "<= 128.0f * Unit::value)"),
    hopper(SOFTMAX, "speculation: correction not applied to the sum",
           "      row_sum[m][half] *= correction[m][half];\n      partial", "      partial"),
    hopper(SOFTMAX, "speculation: correction not applied to the block's sum", "      partial[m][half] *= correction[m][half];\n", ""),
    hopper(SOFTMAX, "speculation: each lane of a quad raises to a maximum of its own", "quad_maximum(largest[m][half])", "largest[m][half]"),
    hopper(SOFTMAX, "speculation: the unit forgotten", "largest[m][half] * (1.0f / Unit::value)", "largest[m][half]"),
    # Packed sequences.
    varlen(SEQUENCE, "seqused is not looked at", "  if (seqused != nullptr) span.length = clamp(ptx::ld_global_s32(seqused + batch), 0, span.length);\n", ""),
    varlen(SEQUENCE, "a sequence ends where the next one does", "cu_seqlens + batch + 1)", "cu_seqlens + batch + 2)"),
    varlen(SEQUENCE, "keys of packed queries are taken to be packed too", "tables.cu_seqlens_k != nullptr ? 0 : batch", "tables.cu_seqlens_q != nullptr ? 0 : batch"),
    varlen(TILES, "sums over 16 lanes alone", "distance < 32", "distance < 16"),
    varlen(TILES, "a tile after a sequence's last is taken for its", "end_ <= tile", "end_ < tile"),
    varlen(TILES, "only the first 32 sequences are looked at", "    for (int first = 0; first < sequences(); first += 32) {", "    for (int first = 0; first < 1; first += 32) {"),
    varlen(TILES, "the numbers of a class begin at 0", "last_lane(end_) + inclusive_sum", "inclusive_sum"),
    varlen(FORWARD, "blocks without a tile compute one", "  if (Config::varlen && ptx::block_index() >= tiles.count()) return;\n", ""),
    varlen(PAGES, "keys and values of the tensor's first sequence", "shape.k_entry, head, shape.k_begin)", "shape.k_entry, head, 0)"),
    varlen(EPILOGUE, "LSE of packed sequences as of a batch", "entry_rows + shape.q_begin +\n         RowMap", "entry_rows +\n         RowMap"),
    varlen(EPILOGUE, "rows of O by the longest sequence's length", "tile, warp_row, shape.rows - first_row", "tile, warp_row, params.seqlen_q - first_row"),
    varlen(PRODUCER, "values end where the tensor does", "from.row = params.attention.seqlen_k - seen.end;", "from.row = params.attention.seqlen_k - Config::tile_n;"),
    varlen(PRODUCER, "values before a window are not cleared", "(Config::window_left && seen.begin > 0)", "(Config::window_left && seen.begin > Config::tile_n)"),
    varlen(PRODUCER, "cleared values are handed on without their barrier's phase", "      edge_phase ^= 1;\n", ""),
    varlen(TMA, "cleared rows are not seen by wgmma", "  ptx::fence_proxy_async_shared();\n}\n\n/// Starts storing", "}\n\n/// Starts storing"),
    varlen(CONSUMER, "queries of the next sequence take part", "Config::varlen && group_row + 64 > mask.shape.rows", "false"),
    varlen(CONSUMER, "queries are read while they are being cleared", "      ptx::bar_sync(own_barrier(warpgroup), 128);\n", ""),
    varlen(STORE, "the last rows are stored over the next sequence", "Config::varlen && first_row + 64 > shape.rows", "false"),
    varlen(STORE, "no barrier after the last rows are read", "    ptx::bar_sync(own_barrier(warpgroup), 128);  // before one thread hands the tile's memory on\n", ""),
    varlen(SCHEDULE, "consumers are not told of the head", "words(tile.at.q_tile, tile.at.head,", "words(tile.at.q_tile, tile.at.batch,"),
    varlen(SCHEDULE, "a tile's lengths are announced in the place of the tile before", "ptx::st_shared_v4(shared.tile(place) + 16",
           "ptx::st_shared_v4(shared.tile(place ^ 1) + 16"),
    # The backward: its formulas.
    backward(SCORE_GRADIENT, "dS without delta", "gradients.value[m][c][i] -= delta;", "gradients.value[m][c][i] -= 0.0f * delta;"),
    backward(SCORE_GRADIENT, "LSE in units of e, exponents in those of 2", ": lse * kLog2E;", ": lse;"),
    backward(SCORE_GRADIENT, "NaN for a row whose LSE is -inf", "lse == -ptx::infinity() ? ptx::infinity() : lse * kLog2E", "lse * kLog2E"),
    backward(SCORE_GRADIENT, "exponents without the scale", "score_mod.scale_log2();", "score_mod.kLog2E;"),
    backward(SCORE_GRADIENT, "hidden pairs: dP times a probability of 0", "    hide(gradients, 0.0f);\n    exponentiate(scores);", "    exponentiate(scores);"),
    backward90(SCORE_GRADIENT, "hidden pairs: dP, which comes later, times a probability of 0",
               "    subtract_delta(gradients);\n    hide(gradients, 0.0f);\n  }", "    subtract_delta(gradients);\n  }"),
    backward(SCORE_GRADIENT, "LSE and delta of the neighbouring queries, in columns", "(8 * n + fragment_col()) * 4", "(8 * n + (fragment_col() ^ 2)) * 4"),
    backward(DQ, "delta of the row 8 before", "ptx::ld_global_f32(delta + row)", "ptx::ld_global_f32(delta + row - 8 * half)"),
    backward(DQ, "dQ without the scale", "dq, attention.scale,", "dq, 1.0f,"),
    backward(DK_DV, "dK without the scale", "gradients.dk, attention.scale,", "gradients.dk, 1.0f,"),
    backward(DK_DV, "dV with the scale", "gradients.dv, value_gradient_scale<Config>(attention),", "gradients.dv, attention.scale,"),
    backward(DK_DV, "dV of dS, not of P", "gemm_nn<Element>(dv, scores,", "gemm_nn<Element>(dv, gradients,"),
    backward(DELTA, "delta summed over half a row's lanes", "distance < kLanes;", "distance < kLanes / 2;"),
    backward(DELTA, "dLSE added, not subtracted", "sum - d_lse", "sum + d_lse"),
    # The backward: masks and variants, seen from the keys.
    backward(QUERIES_OF_KEYS, "the first query after a key's diagonal", "diagonal_query(key) - (Config", "diagonal_query(key) + 1 - (Config"),
    backward(QUERIES_OF_KEYS, "window: queries after its end see the key", "    if (unseen <= 0) return queries;\n", "    if (unseen <= queries) return queries;\n"),
    backward(QUERIES_OF_KEYS, "window: queries before the diagonal do not see the key", "Config::window_right ? mask.window_right : 0", "0"),
    backward(SCORE_MOD, "softcap: its derivative is forgotten", "      softcap().apply_derivative(scores, gradients);\n", ""),
    backward(SOFTCAP, "softcap: the derivative of 1 - tanh", "ptx::fma_rn(-tanh, tanh, 1.0f)", "1.0f - tanh"),
    backward(ALIBI, "ALiBi: the distance of the first column for all, where queries are columns",
             "distance - static_cast<float>(col)); };\n    });\n  }\n\n  /// From", "distance); };\n    });\n  }\n\n  /// From"),
    # The backward: heads, rows, offsets.
    backward(DQ, "keys of another query group's head", "at.head / attention.queries_per_kv", "at.head % (attention.heads_q / attention.queries_per_kv)"),
    backward(DK_DV, "groups of every n-th query head", "kv_head * attention.queries_per_kv + i", "kv_head + i * params.heads_kv"),
    backward(DK_DV, "the group is not summed", "i < attention.queries_per_kv;", "i < 1;"),
    backward(DK_DV, "rows after the last key are stored", "const int rows = shape.seqlen_k - tile_row;", "const int rows = Config::tile_m;"),
    backward(HEAD_ROWS, "LSE and delta of the first batch", "(static_cast<i64>(shape.q_entry) * params.heads_q + head)", "static_cast<i64>(head)"),
    backward(BACKWARD_RING, "rows after the last are loaded", "blocks.key_end - begin}", "Config::tile_n}"),
    backward(BACKWARD_RING, "LSE and delta after the last query are loaded", "Config::sums_dq || seen.has(row) ? 4 : 0", "4"),
    backward(BACKWARD_RING, "offset of a block in 32 bits", "static_cast<i64>(n) * Config::tile_n * rows.stride", "static_cast<int>(n * Config::tile_n * rows.stride)"),
    # The backward: its pipeline.
    backward(BACKWARD_RING, "the wait leaves one group too many", "cp_async_wait_group<ahead - 1>", "cp_async_wait_group<ahead>"),
    backward(BACKWARD_RING, "no barrier between the wait and the use", "<ahead - 1>();\n    ptx::bar_sync();", "<ahead - 1>();"),
    backward(BACKWARD_RING, "one slot: loaded while others read it", "      ptx::bar_sync();\n      fetch(n - 1, 0);", "      fetch(n - 1, 0);"),
    backward(DK_DV, "no barrier between two heads", "    if (i > 0) ptx::bar_sync();  // others may still read the last head's last block\n", ""),
    backward(DK_DV, "dK and dV written over tiles that are still being loaded", "  await_own_tiles();\n", ""),
    backward(DQ, "dQ written over a tile that is still being loaded", "  await_own_tiles();\n", ""),
    backward(BACKWARD_STORE, "a warp's rows read before its lanes have written them", "gradient);\n  ptx::bar_warp_sync();\n", "gradient);\n"),
    # The backward: packed sequences.
    backward(SIDES, "keys: tiles of as many rows as there are queries", "return shape.seqlen_k; }\n  FA2_DEVICE static int length_of_other(const SequenceShape& shape) { return shape.seqlen_q;",
             "return shape.seqlen_q; }\n  FA2_DEVICE static int length_of_other(const SequenceShape& shape) { return shape.seqlen_q;"),
    backward(SIDES, "keys: tiles of every query head", "return params.heads_kv;", "return params.attention.heads_q;"),
    backward(HEAD_ROWS, "LSE and delta of the tensor's first sequence", "* entry_rows + shape.q_begin;", "* entry_rows;"),
    backward(DK_DV, "dK and dV of the tensor's first sequence", "static_cast<i64>(shape.k_begin) + tile_row;", "tile_row;"),
    backward(DK_DV, "dK and dV stored over the next sequence", "const int rows = shape.seqlen_k - tile_row;", "const int rows = attention.seqlen_k - tile_row;"),
    # The backward: sinks.
    backward(D_SINKS, "dSinks with the sign of delta", ": -ptx::ex2_approx(", ": ptx::ex2_approx("),
    backward(D_SINKS, "a sink's probability in the wrong base", "(sink - lse) * kLog2E", "(sink - lse)"),
    backward(D_SINKS, "a head without a sink: -inf + inf", "sink == -ptx::infinity() ? 0.0f : -ptx", "-ptx"),
    backward(D_SINKS, "the last row counts for those that are missing", "row < end ? part : 0.0f", "part"),
    backward(D_SINKS, "a warp's turn is counted from the batch's first row", "    turn -= turns;\n", ""),
    backward(D_SINKS, "one lane alone asks for its warp's number", "sums + static_cast<u32>(4 * ptx::warp_index());  // for which all lanes come\n  if (ptx::lane_index() == 0) ptx::st_shared_u32(of_warp,", "sums;\n  if (ptx::lane_index() == 0) ptx::st_shared_u32(of_warp + static_cast<u32>(4 * ptx::warp_index()),"),
    backward(D_SINKS, "no barrier before the sums of other warps are read", "  ptx::bar_sync();\n", ""),
    # The backward on wgmma: dS on its way from one warpgroup to the others.
    backward90(QUERY_GRADIENT90, "dS is not shown to wgmma", "  ptx::fence_proxy_async_shared();\n", ""),
    backward90(QUERY_GRADIENT90, "dS announced before a warp's lanes have written it", "  ptx::bar_warp_sync();\n", ""),
    backward90(BACKWARD_MAINLOOP90, "dS written where it is still read", "    ptx::mbarrier_wait(dq.shared.scores_empty(at.index), at.phase ^ 1);\n", ""),
    backward90(QUERY_GRADIENT90, "dS read before all warps have written it", "    ptx::mbarrier_wait(shared.scores_full(at.index), at.phase);\n", ""),
    backward90(BACKWARD_MAINLOOP90, "dQ of a step's own dS, which others have not yet", "if constexpr (!kFirst) dq.issue(at.place.before());", "if constexpr (!kFirst) dq.issue(at.place);"),
    # The backward on wgmma: the sums of dQ.
    backward90(QUERY_GRADIENT90, "dQ, transposed: keys of one warpgroup beside dS of both",
               "wgmma_tt<Element>(dq[m], shared.keys(tile)", "wgmma_tt<Element>(dq[m], shared.keys(0)"),
    backward90(BACKWARD_MAINLOOP90, "dQ of the last step forgotten", "    dq.finish(at.place.before(), at.last_tile);\n  }\n\n private:", "  }\n\n private:"),
    backward90(BACKWARD_MAINLOOP90, "dQ added to the tile after its own",
               "    at.last_tile = sum_tile_of(params, work, at.step);\n    at.step.advance(work);\n",
               "    at.step.advance(work);\n    at.last_tile = sum_tile_of(params, work, at.step);\n"),
    backward90(DELTA, "sums of dQ that nobody has set to 0",
               "  if (sums_dq) clear_sums<Config>(params, first_of_delta + begin, end - begin);\n", ""),
    backward90(DELTA, "rows that fill up the last tile of queries take part", ": ptx::infinity();", ": 0.0f;"),
    backward90(CONVERT, "transposed sums converted as if they were not", "if constexpr (!Sums::transposed)", "if constexpr (true)"),
    backward90(QUERIES_OF_KEYS, "keys after the last take part in dQ", "    if (hides_missing_keys && key >= mask.shape.seqlen_k) return kBeyond;\n", ""),
    # The backward on wgmma: its pipeline and its results.
    backward90(BACKWARD_PIPELINE90, "groups that begin with a head of another", "{work.at.head * work.group, work.blocks.end - 1}", "{work.at.head, work.blocks.end - 1}"),
    backward90(BACKWARD_MAINLOOP90, "Q's slot released before dK has read it",
               "    ptx::wgmma_wait_group<0>();\n    hold(dk);\n    hold(score_gradients);\n    release(dq.shared.queries_empty(at.state.index));\n",
               "    release(dq.shared.queries_empty(at.state.index));\n    ptx::wgmma_wait_group<0>();\n    hold(dk);\n    hold(score_gradients);\n"),
    backward90(BACKWARD_PRODUCER90, "waits for the values of one warpgroup alone", "tiles * Layout::ValueTile::bytes", "Layout::ValueTile::bytes"),
    backward90(BACKWARD_PIPELINE90, "warpgroups that own a gradient each do not wait for each other", "bar_sync(10 + warpgroup", "bar_sync(10 + 1 - warpgroup"),
    backward90(BACKWARD90, "dK and dV staged over keys that others read", "    mainloop.run();\n    await_others<Config>(warpgroup);\n", "    mainloop.run();\n"),
    backward90(BACKWARD90, "keys that no query sees: 0 stored over K that is on its way",
               "  ptx::mbarrier_wait(shared.keys_full(), 0);\n  ptx::mbarrier_wait(shared.values_full(), 0);\n",
               "  if (work.steps() > 0) ptx::mbarrier_wait(shared.keys_full(), 0);\n  ptx::mbarrier_wait(shared.values_full(), 0);\n"),
    backward90(BACKWARD90, "dK, on wgmma, without the scale", "mainloop.dk, scale, params.dk", "mainloop.dk, 1.0f, params.dk"),
    # The backward on wgmma: turns at dQ.
    backward90(BACKWARD_TURNS90, "the turn kept", "(flag, key_tile + 1)", "(flag, key_tile)"),
    backward90(BACKWARD_TURNS90, "a turn awaited that no tile of keys before passes on", "step.n < end)", "step.n <= end)"),
    backward90(QUERY_GRADIENT90, "sums before the turn begins", "TurnBarriers{warpgroup}.await_begin();", "static_cast<void>(warpgroup);"),
    backward90(DELTA, "turns that nobody has set to 0", "    ptx::st_global_f32(turns + first_row + i, 0.0f);\n", "    static_cast<void>(i);\n"),
    backward90(BACKWARD_SUMS, "delta of a head as if nothing filled up its last tile", "head * params.statistic_rows +", "head * params.attention.seqlen_q +"),
]
MUTATIONS += [five(*mutation) for mutation in FIVE_PRODUCTS]
for tests, bugs in {"dropout": DROPOUT, "append": APPENDED_ROWS, "merge": MERGED_PARTS, "split keys": SPLIT_KEYS, "pages": KEY_PAGES,
                    "backward varlen on wgmma": BACKWARD_VARLEN90, "softcap": CAPPED_SCORES}.items():
    MUTATIONS += [Mutation(*mutation, first=tests) for mutation in bugs]
