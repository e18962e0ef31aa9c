"""Bugs of keys and values in pages; see mutations.py."""
PAGES = "attention/common/key_pages.cuh"
PRODUCER = "attention/forward/sm90/producer.cuh"
LOADS = "attention/forward/sm90/page_loads.cuh"
PIPELINE = "attention/forward/sm90/pipeline.cuh"

KEY_PAGES = [
    (PAGES, "rows of a page counted from the sequence's beginning", "static_cast<int>(static_cast<u32>(key) % kRows)", "key"),
    (PAGES, "the page before", "of_key = static_cast<u32>(key) / kRows", "of_key = static_cast<u32>(key) / kRows - (static_cast<u32>(key) >= kRows)"),
    (PAGES, "the page after", "of_key = static_cast<u32>(key) / kRows", "of_key = (static_cast<u32>(key) + 1) / kRows"),
    (PAGES, "entries beyond the last key's are read", "(of_key < of_last ? of_key : of_last)", "of_key"),
    (PAGES, "the first sequence's table", "tables.page_table + shape.k_entry * tables.page_table_stride", "tables.page_table"),
    (PAGES, "the last page taken for full", "static_cast<u32>(shape.seqlen_k - 1) / Config::page_size", "static_cast<u32>(shape.seqlen_k) / Config::page_size"),
    (PAGES, "pages of the first head", "static_cast<const u16*>(data) + head * strides.head_stride", "static_cast<const u16*>(data)"),
    (PAGES, "blocks all begin with the first key", "rows.pages, n * Config::tile_n}", "rows.pages, 0}"),
    (PRODUCER, "values behind the last key are not cleared", "(paged && seen.end < Config::tile_n)", "false"),
    (LOADS, "pieces of a tile in one place", "tile.base + static_cast<u32>(piece * pages.piece_rows * Tile::span)", "tile.base"),
    (LOADS, "every piece from the first one's page", "ptx::shfl_idx(page[0], piece % 32)", "ptx::shfl_idx(page[0], 0)"),
    (LOADS, "every piece from the first one's row", "row_of(first_key + piece_rows * piece)", "row_of(first_key)"),
    (PRODUCER, "keys of every block from the first block's pages", "n * Config::tile_n + warp *", "warp *"),
    (PRODUCER, "a warp gathers the first one's pages", "n * Config::tile_n + warp *", "n * Config::tile_n + 0 *"),
    (PRODUCER, "every warp gathers into the first one's rows", "gather_rows<kCols>(tile, warp * block.pages.pieces", "gather_rows<kCols>(tile, 0 * block.pages.pieces"),
    (PRODUCER, "slots in flight when a tile ends", "if constexpr (gathers) gathered.finish();", ""),
    (PRODUCER, "gathered for the first head", "static_cast<const u16*>(data) + kv_head(at) * strides.head_stride", "static_cast<const u16*>(data)"),
    (PRODUCER, "gathered before a slot is empty", "await_empty_slot();\n    const u16* const of_head", "const u16* const of_head"),
    (LOADS, "a lane's second row from its first one's page", "if (piece >= 32) found = of_second;", ""),
    (LOADS, "values that nobody sees are gathered", "col < kCols && seen.has(first_row + row)", "col < kCols"),
    (LOADS, "columns beyond the last are gathered", "col < kCols && seen.has(first_row + row)", "seen.has(first_row + row)"),
    (LOADS, "slots are handed on before they have landed", "ptx::cp_async_wait_group<most_ahead>();", "ptx::cp_async_wait_group<most_ahead + 1>();"),
    (LOADS, "a tile's last slots are handed on before they have landed", "ptx::cp_async_wait_group<0>();", ""),
    (LOADS, "gathered rows are not shown to wgmma", "ptx::fence_proxy_async_shared();", ""),
    (LOADS, "one lane hands on what others still wait for", "ptx::fence_proxy_async_shared();\n    ptx::bar_warp_sync();", "ptx::fence_proxy_async_shared();"),
    (LOADS, "more slots in flight than consumers wait for", "Config::stages < 5 ? Config::stages - 2 : 3", "Config::stages - 1"),
    (PIPELINE, "consumers wait for one warp of four", "ptx::mbarrier_init(shared.slot_full(slot), kLoadingWarps);", "ptx::mbarrier_init(shared.slot_full(slot), 1);"),
    (PIPELINE, "a tile is announced before all that gather have heard the last", "kConsumerWarps + kLoadingWarps - 1", "kConsumerWarps"),
]
