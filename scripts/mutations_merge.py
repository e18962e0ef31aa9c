"""Bugs of merge(); see mutations.py."""
MERGE = "attention/rows/merge.cuh"

MERGED_PARTS = [
    (MERGE, "weights without the largest", "    for (int part = 0; part < count; ++part) largest = ptx::max_or_nan_f32(largest, lse_of(part));\n", "    largest = 0.0f;\n"),
    (MERGE, "+inf of a row without a key as if it had any", "value == ptx::infinity() ? -value : value", "value"),
    (MERGE, "-inf of a row without a key as if it had any", "value == -ptx::infinity() ? 0.0f : ", ""),
    (MERGE, "values of a part without a key", "    if (weight == 0.0f) continue;\n", ""),
    (MERGE, "values of the first part for all", "part * params.part_stride + place", "0 * params.part_stride + place"),
    (MERGE, "the last part left out", "part < weights.count; ++part", "part < weights.count - 1; ++part"),
    (MERGE, "weights that do not add up to 1", "ptx::rcp_rn(weights.sum)", "1.0f"),
    (MERGE, "LSE of the first head for all", "params.lse + number,", "params.lse + at.row,"),
    (MERGE, "LSE of the largest part alone", "ptx::fma_rn(ptx::lg2_approx(sum), 1.0f / kLog2E, largest)", "largest"),
    (MERGE, "all columns into the first eight", "at.row) + at.col;\n  if (params.float32_output", "at.row);\n  if (params.float32_output"),
    (MERGE, "threads of rows beyond the last", "  if (number >= params.rows) return;\n", ""),
]
