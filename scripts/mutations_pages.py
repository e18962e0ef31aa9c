"""Bugs of keys and values in pages; see mutations.py."""
PAGES = "attention/key_pages.cuh"
PRODUCER = "attention/producer_sm90.cuh"

KEY_PAGES = [
    (PAGES, "rows of a page counted from the sequence's beginning", "static_cast<int>(static_cast<u32>(key) % kRows)", "key"),
    (PAGES, "the page before", "static_cast<int>(static_cast<u32>(key) / kRows);", "static_cast<int>(static_cast<u32>(key) / kRows) - (key >= static_cast<int>(kRows));"),
    (PAGES, "the page after", "static_cast<int>(static_cast<u32>(key) / kRows);", "static_cast<int>((static_cast<u32>(key) + 1) / kRows);"),
    (PAGES, "entries beyond the last key's are read", "(entry < last ? entry : last)", "entry"),
    (PAGES, "the first sequence's table", "tables.page_table + shape.k_entry * tables.page_table_stride", "tables.page_table"),
    (PAGES, "the last page taken for full", "static_cast<u32>(shape.seqlen_k - 1) / Config::page_size", "static_cast<u32>(shape.seqlen_k) / Config::page_size"),
    (PAGES, "pages of the first head", "static_cast<const u16*>(data) + head * strides.head_stride", "static_cast<const u16*>(data)"),
    (PAGES, "blocks all begin with the first key", "rows.pages, n * Config::tile_n}", "rows.pages, 0}"),
    (PRODUCER, "values behind the last key are not cleared", "(kPaged && seen.end < Config::tile_n)", "false"),
    (PRODUCER, "pieces of a tile in one place", "tile.base + static_cast<u32>(piece * kRows * Tile::span)", "tile.base"),
    (PRODUCER, "every piece from the first one's page", "ptx::shfl_idx(found.page, piece)", "ptx::shfl_idx(found.page, 0)"),
    (PRODUCER, "every piece from the first one's row", "TensorRows from{0, ptx::shfl_idx(found.row, piece)", "TensorRows from{0, ptx::shfl_idx(found.row, 0)"),
    (PRODUCER, "keys of every block from the first block's pages", ".at(n * Config::tile_n + kRows", ".at(kRows"),
]
