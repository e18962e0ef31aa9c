"""Bugs of planning: {file: [(scope, bug, old, new, tests that run first)]}. See mutate.py."""
BUGS = {
    "widened_keys.cpp": [
        ("WidenedCall", "widened values where the keys lie", "args_.v = call.scratch + layout.values;", "args_.v = call.scratch;",
         "8-bit keys are"),
    ],
    "forward.cpp": [
        ("add_forward", "scratch in the counters of other plans", "plan.workspace.least_scratch = kMostForwardCounters;", "",
         "key maps: a call that makes"),
        ("add_forward", "partial outputs overwrite widened keys", "attention.scratch.begin = plan.workspace.scratch_bytes;", "",
         "pages: any size, with every variant, of 8-bit keys and values that"),
    ],
    "attention_params.cpp": [
        ("softcap_params", "the series ends at a quarter of any cap", "std::min(TanhSeries::kEnd / x, kFarthest)",
         "std::min(TanhSeries::kEnd / x, FLT_MAX * kFarthest)", "softcap"),
        ("softcap_params", "constants of a cap that is far above every score", "std::max(x, kLeast)",
         "std::max(x, 0.0 * kLeast)", "softcap"),
        ("softcap_params", "constants of tanh's argument per score of 0", "/ softcap, FLT_MIN, 1", "/ softcap, 0.0, 1",
         "softcap"),
        ("softcap_params", "a series whose guesses are flushed to 0", "is_usable(factor) && is_usable(std::fabs(factor_log2))",
         "is_usable(factor)", "softcap"),
        ("softcap_params", "a series of factors beyond any float", "value <= kLargestFactor",
         "value <= DBL_MAX * kLargestFactor", "softcap"),
        ("softcap_params", "a large cap taken for a small one", "softcap > kLarge", "softcap > 0x1p100f * kLarge", "softcap"),
        ("chunks_of", "chunks no longer than the keys, where positions go on", "std::max(p.seqlen_q, p.seqlen_k)", "p.seqlen_k",
         "attention chunks"),
    ],
    "key_map.cpp": [
        ("counted", "maps: blocks that no query sees count as whole", "words[i] & words[i + of_tile]", "words[i + of_tile]", "key maps: a plan says"),
        ("make_constant_map", "maps: one for all calls of a mask that captures", ".captures)\n    return std::nullopt;", ".batch)\n    return std::nullopt;", "key maps: of a mask"),
    ],
    "held_maps.cpp": [
        ("check", "held maps: a stale one is read", "args.block_map_version != version_", "false", "block maps: another"),
        ("shape_of", "held maps: of sequences of other lengths", "shape.seqlen_q = p.seqlen_q, ", "", "block maps: another"),
        ("find", "held maps: one of other tiles", "maker = key_map_config(config);", "maker = entries_.empty() ? config : entries_[0].config;", "block maps: without"),
    ],
    "text_params.cpp": [
        ("held_bits_of", "held maps: not read", "map == nullptr ? nullptr", "true ? nullptr", "block maps: forwards"),
        ("insert_text_params", "captures: in front of the map", "params.insert(texts.place, &key_map, sizeof key_map);",
         "params.insert(texts.place + texts.captures.size() * sizeof(CaptureParams), &key_map, sizeof key_map);", "key maps: of a mask"),
    ],
    "row_kernels.cpp": [
        ("merge_kernel", "the kernel of another base", "rows.lse_base = problem.lse_base;", "", "LSE to base 2"),
        ("append_kernel", "16-bit rows written to a cache of 8 bits", "rows.kv_type = problem.kv_type;", "", "append to e4m3"),
    ],
    "planner.cpp": [
        ("usable_sms", "sm_margin is ignored", "return sms - margin;", "return sms;", "sm_margin"),
        ("usable_sms", "sm_margin may leave no SM", "margin >= sms", "margin > sms", "sm_margin"),
    ],
    "plan.cpp": [
        ("start_max_logits", "largest logits begin with what memory holds", "!plan.problem.max_logits ||", "true ||", "max logits"),
        ("start_max_logits", "largest logits begin with 0", "-std::numeric_limits<float>::infinity()", "0.0f", "max logits"),
    ],
    "steps/append.cpp": [
        ("fill_append", "values with the factors of keys", "factors_of(args.v_descale, args.v_descale_strides)",
         "factors_of(args.k_descale, args.k_descale_strides)", "append to e4m3"),
    ],
}
