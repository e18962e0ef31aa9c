"""Bugs of attention over sharded tokens: {file: [(scope, bug, old, new, tests that run first)]}. See mutate.py."""
BUGS = {
    "stages.cpp": [
        ("stages_of", "keys of a group are used before they arrive", "computes = group(1)", "computes = group(0)",
         "context parallel: outputs"),
        ("stages_of", "gradients go home while they are computed", "returns = group(2)", "returns = group(1)", "context parallel: gradients"),
        ("stages_of", "gradients are added before they have come home", "completes = group(3)", "completes = group(2)",
         "context parallel: gradients"),
    ],
    "gather_engine.cpp": [
        ("prepare", "own keys of the first group alone", "engine_.copy_own(group, args_.forward, workspace_);",
         "if (group < 1) engine_.copy_own(group, args_.forward, workspace_);", "context parallel: batches"),
        ("forward_args", "LSE of the first group for all", "at_or_null(args.lse, row * of_.shard.seqlen_q)", "args.lse",
         "context parallel: batches"),
        ("forward_args", "sinks of the first heads for all", "at_or_null(args.sinks, head)", "args.sinks", "context parallel: outputs"),
        ("backward_args_of", "gradients of V where those of K lie", "a.dv = in.v", "a.dv = in.k",
         "context parallel: gradients"),
        ("add_copies", "slices at the beginning of a slot", "to.push_back(own.to)", "to.push_back(own.to * 0)", "context parallel: outputs"),
    ],
    "local_sequences.cpp": [
        ("local_sequences", "the second piece counts from its own first query", "own_key - last.keys.begin - (row - last.queries.begin)",
         "own_key - last.keys.begin", "context parallel: outputs"),
    ],
    "rank_work.cpp": [
        ("exchanged_problem", "dropout numbers the keys of a window from its first one", "if (numbers_keys(p)) p.window_left.reset();", "",
         "context parallel: outputs"),
        ("rank_work", "dropout numbers documents by those on the rank",
         "work.sequences = one_per_document(work.sequences, cu_seqlens, held);",
         "static_cast<void>(one_per_document(work.sequences, cu_seqlens, held));", "context parallel: documents"),
        ("rank_work", "no pieces where the last query is not the last one", "!std::ranges::all_of(work.sequences, is_bottom_right)",
         "std::ranges::all_of(work.sequences, is_bottom_right)",
         "context parallel: outputs"),
    ],
    "decode_engine.cpp": [
        ("merge", "LSE of the first rank's heads", "communicator_.rank() * heads_ * rows_", "0", "context parallel decoding: parts"),
        ("decode_problem", "sinks on every rank", "rank != 0", "rank < 0", "context parallel decoding: parts"),
        ("local_args", "a rank without keys has weight", "a.empty_row_lse = EmptyRowLse::negative_infinity;",
         "a.empty_row_lse = EmptyRowLse::positive_infinity, a.lse = nullptr;", "context parallel decoding: parts"),
    ],
}
