"""Bugs of keys that are shared out over blocks; see mutations.py."""
TILES = "attention/split_tiles.cuh"
KEYS = "attention/split_keys.cuh"
CONSUMER = "attention/consumer_sm90.cuh"
PRODUCER = "attention/producer_sm90.cuh"

SPLIT_KEYS = [
    (TILES, "workers with one block more counted one short", "const u32 of_longer = extra * (least + 1);", "const u32 of_longer = extra * least;"),
    (TILES, "shares of workers that have none", "blocks < params.block_count ? blocks : params.block_count", "params.block_count"),
    (TILES, "a tile that sees no key has no block", "seen.is_empty() ? 1 :", "seen.is_empty() ? 0 :"),
    (TILES, "a part goes on beyond the worker's share", "static_cast<int>(count < left ? count : left)", "static_cast<int>(count)"),
    (TILES, "parts of one tile begin with its first key", "seen.begin + first, seen.begin + last", "seen.begin, seen.begin + last"),
    (TILES, "the last worker of a tile left out", "part.count = shares_.worker_of(tile_begin_ + count - 1) - part.first_worker + 1;",
     "part.count = shares_.worker_of(tile_begin_ + count - 1) - part.first_worker;"),
    (TILES, "tiles of the next head begin with the last tile of queries", "    at_.q_tile = 0;\n    if (++at_.head", "    if (++at_.head"),
    (TILES, "sequences without queries have tiles", "    } while (shape_.rows == 0);", "    } while (false);"),
    (TILES, "sequences before the 32 that lanes look at do not count", "        before = last_lane(end);\n", ""),
    (CONSUMER, "every part masks as if it were the whole tile's", "of_part<Config>(key_blocks(mask, group_row, 64), tile.part)", "key_blocks(mask, group_row, 64)"),
    (CONSUMER, "a sink joins every part", "warp_row, part.is_first()}", "warp_row}"),
    (CONSUMER, "a tile of parts keeps the queries' buffer", "      store.skip();\n", ""),
    (KEYS, "two parts of a worker in one place", "+ part) + (part == 0 ? 1 : 0);", "+ part);"),
    (KEYS, "rows of a part that the tile has not", "      if (row >= row_count()) continue;\n", ""),
    (KEYS, "counts before all of the warpgroup's rows are stored",
     "    ptx::bar_sync(own_barrier(warpgroup), 128);\n  }\n\n  /// After store()", "  }\n\n  /// After store()"),
    (KEYS, "the counter of parts does not return to 0", "atom_inc_acq_rel_global_u32(counter, others)", "atom_inc_acq_rel_global_u32(counter, others + 1)"),
    (KEYS, "warpgroups count in one word", "tile.part.first_worker * warpgroups + warpgroup;", "tile.part.first_worker * warpgroups;"),
    (KEYS, "the first to end merges", "== static_cast<int>(others);", "== 0;"),
    (KEYS, "the count read before it is there", "    ptx::bar_sync(own_barrier(warpgroup), 128);\n    const int before", "    const int before"),
    (KEYS, "parts weigh their sums alone", "part.sum * power", "part.sum"),
    (KEYS, "parts weigh the same however many keys they have", "part.sum * power", "power"),
    (KEYS, "exponents of large scores subtracted after they are rounded",
     "ptx::fma_rn(score, scale_log2, part.exponent.log2 - largest.log2)",
     "log2_of(part) - ptx::fma_rn(largest.score, scale_log2, largest.log2)"),
    (KEYS, "the first 32 parts alone", "first < tile.part.count; first += 32) {", "first < 1; first += 32) {"),
    (KEYS, "parts before keep their weight beside larger ones", "weights.of({before, 1.0f})", "1.0f"),
    (KEYS, "merged outputs without a division", "v[0] * factor, v[1] * factor)", "v[0], v[1])"),
    (KEYS, "LSE of the largest part alone", "ptx::lg2_approx(sum) + largest.log2", "largest.log2"),
    (KEYS, "LSE of a row without a key", "weights.sum == 0.0f ? attention.empty_row_lse : weights.log_sum_exp()", "weights.log_sum_exp()"),
]
