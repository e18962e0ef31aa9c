"""Bugs of dropout, as those of mutations.py: file, bug, old, new."""

NUMBERS = "attention/common/dropout.cuh"
PHILOX = "attention/common/philox.cuh"
CONSUMER = "attention/forward/sm90/consumer.cuh"
DQ = "attention/backward/sm80/queries.cuh"
DK_DV = "attention/backward/sm80/keys.cuh"
SCORE_GRADIENT = "attention/backward/score_gradient.cuh"
BACKWARD_MAINLOOP90 = "attention/backward/sm90/mainloop.cuh"
QUERY_GRADIENT90 = "attention/backward/sm90/query_gradient.cuh"
BACKWARD_SPLIT90 = "attention/backward/sm90/split.cuh"
FORWARD = "attention/forward/sm80/kernel.cuh"
MAINLOOP = "attention/forward/sm80/mainloop.cuh"
MAINLOOP90 = "attention/forward/sm90/mainloop.cuh"

DROPOUT = [
    (NUMBERS, "one more than the threshold is kept, of every number", "      for_each_number<kTile>(probabilities, first_row, first_col, [&](float& p, u32 number) {\n        if (number < params.threshold) p = 0.0f;",
            "      for_each_number<kTile>(probabilities, first_row, first_col, [&](float& p, u32 number) {\n        if (number > params.threshold) p = 0.0f;"),
    (NUMBERS, "every head has the same mask", "{stream[0] + static_cast<u32>(head), stream[1]}", "{stream[0], stream[1]}"),
    (FORWARD, "the forward's mask is that of a head of the first batch", "of_head(at.batch * params.heads_q + at.head)", "of_head(at.head)"),
    (CONSUMER, "the same on Hopper", "of_head(at.batch * attention.heads_q + at.head)", "of_head(at.head)"),
    (DQ, "dQ has the mask of a head of the first batch", "of_head(at.batch * attention.heads_q + at.head)", "of_head(at.head)"),
    (DK_DV, "dK and dV have that of the key/value head", "of_head(at.batch * attention.heads_q + at.head)", "of_head(at.batch * attention.heads_q + kv_head)"),
    (QUERY_GRADIENT90, "dK and dV, on wgmma, have the mask of a head of the first batch", "of_head(work.at.batch * params.attention.heads_q + step.head)", "of_head(step.head)"),
    (NUMBERS, "where rows are keys, their words are those of queries", "words(first_col / 2 + lane % 4 * 2 + odd, first_row / 4 + lane / 8)", "words(first_row / 2 + lane / 4, first_col / 4 + lane % 4)"),
    (NUMBERS, "words of the other lane are not taken", "const u32 taken = ptx::shfl_bfly(given, 4);", "const u32 taken = given;"),
    (NUMBERS, "the second block of columns has the numbers of the first", "first_row + 16 * m, first_col + 8 * n);", "first_row + 16 * m, first_col);"),
    (NUMBERS, "the offset is not read", "{{state[2], state[3], 0, 0}}", "{{0, 0, 0, 0}}"),
    (NUMBERS, "the seed's upper half is not read", "state[0], state[1]);", "state[0], 0);"),
    (NUMBERS, "a round too few", "kRounds = 7;", "kRounds = 6;"),
    (PHILOX, "a key that stays", "    key0 += 0x9e3779b9u;\n", ""),
    (MAINLOOP, "dropped before the sums", "      if (softmax.step(scores)) softmax.rescale(output);\n      dropout.template drop<ScoreTile::queries_by_keys>(scores, first_row, n * Config::tile_n);\n",
            "      dropout.template drop<ScoreTile::queries_by_keys>(scores, first_row, n * Config::tile_n);\n      if (softmax.step(scores)) softmax.rescale(output);\n"),
    (FORWARD, "O is not divided by the share kept", "  dropout.rescale(mainloop.output);\n", ""),
    (CONSUMER, "O, on Hopper, is not divided by the share kept", "    dropout.rescale(mainloop.output);\n", ""),
    (MAINLOOP90, "the first block drops nothing", "    ring.consumer_release(first);\n    drop(n);\n", "    ring.consumer_release(first);\n"),
    (MAINLOOP90, "the mask of the next block", "dropout.template drop<ScoreTile::queries_by_keys>(scores, first_row, n * Config::tile_n);", "dropout.template drop<ScoreTile::queries_by_keys>(scores, first_row, (n + 1) * Config::tile_n);"),
    (NUMBERS, "dV is not divided by the share kept", "return Config::dropout ? params.dropout.rescale : 1.0f;", "return 1.0f;"),
    (NUMBERS, "dV of dropped probabilities, with the wrong sign", "for_each_score(probabilities, [](float& p) { p = ptx::max_or_nan_f32(p, 0.0f); });", "(void)probabilities;"),
    (SCORE_GRADIENT, "dS by marked probabilities", "gradient *= Config::dropout ? ptx::magnitude(p) : p;", "gradient *= p;"),
    (BACKWARD_SPLIT90, "weights of dS that are marked", "        if constexpr (Config::dropout) weight = {ptx::magnitude(weight.low), ptx::magnitude(weight.high)};\n", ""),
    (BACKWARD_SPLIT90, "dV of a wide head from marked probabilities", "      if constexpr (Config::dropout) {\n        of_head.drop_marked(scores);\n        round(scores);\n      }\n", ""),
    (BACKWARD_MAINLOOP90, "dV, on wgmma, from marked probabilities", "      of_head.drop_marked(scores);\n", ""),
    (SCORE_GRADIENT, "dP is not divided by the share kept", "ptx::fma_rn(gradient, rescale, -delta);", "gradient - delta;"),
    (SCORE_GRADIENT, "dP of dropped probabilities counts", "probabilities.value[m][c][i] < 0.0f ? -delta : ptx::fma_rn", "ptx::fma_rn"),
    (SCORE_GRADIENT, "delta is dropped with dP", "< 0.0f ? -delta :", "< 0.0f ? 0.0f :"),
    (NUMBERS, "dP of wide heads is not divided by the share kept", "    rescale(gradients);\n", ""),
]
