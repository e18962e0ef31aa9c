"""The mode --decode of context_parallel.py: decoding over caches of all ranks, beside the same on one GPU."""
import json
import math
import sys

import torch

COLD_BYTES = 512 << 20  # ten times L2


class Case:
    """A case's queries of all heads, and its whole caches, in so many copies that none of them is in L2."""

    def __init__(self, text, args, ranks):
        self.text = text
        self.batch, self.keys = (int(n) for n in text.split("x"))
        own_bytes = 4 * self.batch * self.keys * args.heads_kv * args.head_dim // ranks.count
        torch.manual_seed(args.seed)
        make = lambda rows, heads: torch.randn(self.batch, rows, heads, args.head_dim, device=ranks.device).bfloat16()  # noqa: E731
        heads = (args.heads, args.heads_kv, args.heads_kv)
        rows = (args.queries, self.keys, self.keys)
        copies = 1 if ranks.cpu else max(1, math.ceil(COLD_BYTES / own_bytes))
        self.copies = [[make(n, h) for n, h in zip(rows, heads)] for _ in range(copies)]
        if args.peaked:
            for q, _, _ in self.copies:
                q *= 4

    def of_rank(self, ranks):
        """Returns the copies of a rank: its heads of queries, its keys and values."""
        part = lambda x, dim: x.tensor_split(ranks.count, dim)[ranks.rank].contiguous()  # noqa: E731
        return [(part(q, 2), part(k, 1), part(v, 1)) for q, k, v in self.copies]


def passes_of(attend, copies, graphs):
    """Returns a function that attends to each copy once, as a CUDA graph if `graphs`, and the first output."""
    out = [attend(*copy) for copy in copies][0]

    def run():
        for copy in copies:
            attend(*copy)

    if not graphs:
        return run, out
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # PyTorch's watchdog of NCCL makes calls meanwhile
        run()
    return graph.replay, out


def burst_of(run, ranks, least_ms):
    """Returns a function that takes about `least_ms`, and how often it calls run(). Both are equal on all ranks."""
    ranks.once(run)
    count = max(1, math.ceil(least_ms / ranks.once(run)))

    def burst():
        for _ in range(count):
            run()

    return burst, count


def rows_of(text, args, ranks):
    """Returns a row for one GPU and one for all: the case, who, us per call, and the share of one GPU's time."""
    import fa2
    from fa2 import context_parallel as cp

    case, graphs = Case(text, args, ranks), args.graphs and not ranks.cpu
    whole, expected = passes_of(fa2.attention, case.copies, graphs)
    split, found = passes_of(cp.decode, case.of_rank(ranks), graphs)
    expected = expected.tensor_split(ranks.count, 2)[ranks.rank].float()
    error = (found.float() - expected).square().mean().sqrt() / expected.square().mean().sqrt()
    if not error < 0.02:
        raise SystemExit(f"{text}: the output of rank {ranks.rank} differs from one GPU's by {error:.3g} of its rms")
    bursts = {name: burst_of(run, ranks, args.burst_ms) for name, run in (("one", whole), ("all", split))}
    ms = ranks.medians({name: burst for name, (burst, _) in bursts.items()}, args.rounds)
    us = {name: 1000 * ms[name] / (count * len(case.copies)) for name, (_, count) in bursts.items()}
    return [
        dict(case=text, gpus=gpus, us=us[name], of_one=us[name] / us["one"])
        for name, gpus in (("one", 1), ("all", ranks.count))
    ]


def markdown(rows):
    lines = ["| sequences x keys | GPUs | us | of one GPU's time |", "|--:|--:|--:|--:|"]
    return lines + [f"| {row['case']} | {row['gpus']} | {row['us']:.1f} | {row['of_one']:.3f} |" for row in rows]


def measure(args, ranks):
    """Returns lines of Markdown. Rank 0 prints them, or one JSON document."""
    if args.heads % ranks.count:
        raise SystemExit(f"--heads = {args.heads}, must be a multiple of the {ranks.count} ranks")
    if args.cpu:
        args.case = args.case or ["2x96", "1x300"]
    rows = []
    for text in args.case or ["16x8192", "1x524288"]:
        rows += rows_of(text, args, ranks)
        if ranks.rank == 0 and not args.json:
            print("\n".join(markdown(rows)[0 if len(rows) == 2 else -2 :]), flush=True)
    if ranks.rank == 0 and args.json:
        name = "the interpreter" if args.cpu else torch.cuda.get_device_name()
        facts = dict(device=name, gpus=ranks.count, heads=args.heads, heads_kv=args.heads_kv, head_dim=args.head_dim)
        facts |= dict(queries=args.queries, graphs=args.graphs, rounds=args.rounds, torch=torch.__version__)
        json.dump(dict(facts=facts, rows=rows), sys.stdout, indent=1)
        print()
    return markdown(rows)
