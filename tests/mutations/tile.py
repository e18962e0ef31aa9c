"""Bugs of templates/tile: {file: [(scope, bug, old, new, tests that run first)]}. See mutate.py."""
BUGS = {
    "e4m3.cuh": [
        ("widen_by_bits", "even bytes from the upper halves", "widen_upper_bytes<Element>(bytes << 8,",
         "widen_upper_bytes<Element>(bytes,", "8-bit"),
        ("widen_by_bits", "NaN codes read as 480", "ptx::prmt(nan, 0, 0xbb99)", "0u", "8-bit keys: NaN"),
        ("widen_upper_bytes", "sign lost", "(bytes & 0x80008000u)", "0u", "8-bit"),
        ("widen_by_conversion", "bytes in order, not even and odd ones", "ptx::prmt(bytes, 0, 0x3120)", "bytes", "8-bit"),
        ("narrow", "two codes swapped", "ptx::cvt_rn_e4m3_x4(a, b, c, d)", "ptx::cvt_rn_e4m3_x4(a, c, b, d)", "append to e4m3"),
        ("narrow", "numbers beyond 448 become NaN", "ptx::cvt_rn_e4m3_x4(a, b, c, d)",
         "ptx::cvt_rn_e4m3_x4(a, b, c, ptx::magnitude(d) > 464.0f ? 0.0f * ptx::infinity() : d)", "append to e4m3"),
    ],
    "byte_tile.cuh": [
        ("load_operand_of_bytes", "queries in their own order of columns", "four.word[1], 0x5410)", "four.word[1], 0x3210)",
         "8-bit"),
        ("load_operand_of_bytes", "queries of the wrong half of the lanes", "tile.chunk_address(row + 16 * m + 8 * half +",
         "tile.chunk_address(row + 16 * m + 8 * (1 - half) +", "8-bit"),
        ("gemm_nt_bytes_step", "the second step's keys with the first step's queries", "(i % 2 == 0 ? first : second)", "first",
         "8-bit"),
        ("gemm_nn_bytes", "values of the two halves of a step swapped", "low.even, high.even);", "high.even, low.even);",
         "8-bit"),
        ("gemm_nn_bytes", "odd columns hold even ones", "low.odd, high.odd);", "low.even, high.even);", "8-bit"),
        ("round_into_tile", "output in the order of its accumulators",
         "{{ptx::cvt_rn_x2<Element>(even[2 * half], odd[2 * half]), ptx::cvt_rn_x2<Element>(even[2 * half + 1], odd[2 * half "
         "+ 1])}}",
         "{{ptx::cvt_rn_x2<Element>(even[2 * half], even[2 * half + 1]), ptx::cvt_rn_x2<Element>(odd[2 * half], odd[2 * half "
         "+ 1])}}", "8-bit"),
    ],
    "register_tile.cuh": [
        ("for_each_score", "mask of the fragment's halves swapped", "8 * half + fragment_row()",
         "8 * (1 - half) + fragment_row()"),
        ("round_to_operand_a", "registers of the A operand swapped", "2 * step + i / 2]", "2 * step + i % 2]"),
        ("round_into_tile", "lower half of O's fragment written over the upper", "chunk_address(row + 8, 8 * n)",
         "chunk_address(row, 8 * n)"),
        ("round_to_operand_a", "bfloat16 probabilities truncated, not rounded",
         "a.pair[m][i] = ptx::cvt_rn_x2<Element>(v[i % 2 * 2], v[i % 2 * 2 + 1]);",
         "u32 low, high; __builtin_memcpy(&low, &v[i % 2 * 2], 4); __builtin_memcpy(&high, &v[i % 2 * 2 + 1], 4); "
         "a.pair[m][i] = __is_same(Element, BFloat16) ? low >> 16 | (high & 0xffff0000u) : ptx::cvt_rn_x2<Element>(v[i "
         "% 2 * 2], v[i % 2 * 2 + 1]);"),
    ],
    "copy.cuh": [
        ("store_tile", "O written beyond seqlen_q", "col >= destination.cols || !rows.has(row)", "col >= destination.cols"),
        ("store_tile", "O written beyond head_dim_v", "col >= destination.cols || !rows.has(row)", "!rows.has(row)"),
        ("load_tile", "zero fill of missing rows and columns forgotten", "from + (page - start), exists ? 16 : 0",
         "from + (page - start), 16"),
        ("load_tile", "columns beyond head_dim are read", "(whole_page || page + chunk * 8 < kSourceCols) &&", ""),
        ("gather_tile", "element-wise loads one row too far", "exists = rows.has(row) && col < kSourceCols;",
         "exists = rows.has(row - 1) && col < kSourceCols;"),
        ("load_tile", "a last partial pass runs past the tile", "if (kRows % rows_per_pass != 0 && row >= kRows) break;", ""),
    ],
    "shared_tile.cuh": [
        ("TileRows", "rows of a tile from its first on", "first + row, col", "row, col", "head dims"),
        ("TileColumns", "columns of whole pages from the first on", "static_cast<u32>(first * rows * 2)", "0u", "head dims"),
        ("TileColumns", "columns behind the last one are read", "kExist || first + col < kEnd ? first + col : 0",
         "first + col", "head dims"),
        ("chunk_address", "swizzle missing where tiles are written", "((chunk ^ swizzle(row, width)) << 4)", "(chunk << 4)"),
        ("block_address", "swizzle missing where fragments are read", "((lane_chunk ^ swizzle(lane_row, width)) << 4)",
         "(lane_chunk << 4)"),
        ("swizzle", "swizzle of 32 columns by the row, not by pairs of rows", "(row >> 1) & 3", "row & 3"),
        ("block_address", "column added to the swizzled address, not XORed", "(lane_address ^ static_cast<u32>",
         "(lane_address + static_cast<u32>"),
    ],
    "gemm.cuh": [
        ("gemm_nn_block", "V without .trans", "ldmatrix_x4_trans(block", "ldmatrix_x4(block"),
        ("gemm_nt_step", "K's blocks numbered down the rows", "BlockOrder::across", "BlockOrder::down"),
        ("gemm_nn_block", "V's blocks numbered across the columns", "BlockOrder::down", "BlockOrder::across"),
    ],
    "tma_copy.cuh": [
        ("box_at", "packed heads: every box begins with the group's first head", "at.head, at.row, at.group", "0, at.row, at.group",
         "head groups"),
        ("clear_rows_outside", "cleared rows are not seen by wgmma", "ptx::fence_proxy_async_shared();", "", "varlen"),
    ],
    "swizzled_tile.cuh": [
        ("permutation", "narrow swizzles by the row, not by the rows of 128 bytes", "row / kRowsOfPattern % (span / 16)",
         "row % (span / 16)", "forward_sm90"),
        ("by_rows", "V's matrix descriptor: leading and stride offset swapped", "(base, group_bytes, 8 * span)",
         "(base, 8 * span, group_bytes)", "forward_sm90"),
    ],
}
