"""Times one sequence across GPUs, a process each, beside the same on one GPU, on all at once, and beside ring_flash_attn and PyTorch's
context_parallel if they are there. Efficiency: one GPU's time over the ranks, over the time of the slowest rank. Rounds in an order that is
shuffled every round, medians. Refuses to time a wrong result. Writes Markdown. --decode times decoding over caches of all GPUs instead:
microseconds of a call, in bursts of calls over cold memory, and what share of one GPU's time that is.

  torchrun --nproc_per_node 2 bench/context_parallel.py --out docs/measurements/context_parallel.md
  torchrun --nproc_per_node 2 bench/context_parallel.py --seqlen 8192 --groups 1 --groups 2 --groups 4
  torchrun --nproc_per_node 2 bench/context_parallel.py --documents
  torchrun --nproc_per_node 2 bench/context_parallel.py --decode --graphs             # 16 sequences of 8k keys, one of 512k
  torchrun --nproc_per_node 2 bench/context_parallel.py --decode --case 4x65536 --json
  FA2_DEVICE=interpreter torchrun --nproc_per_node 2 bench/context_parallel.py --cpu    # whether it runs, without times that mean anything
"""
import argparse
import contextlib
import functools
import os
import random
import statistics
import time

import context_parallel_decode
import torch
import torch.distributed as dist
import torch.nn.attention


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seqlen", type=int, action="append", help="tokens of all ranks; repeatable; default: 8192, 32768, 65536, 131072")
    p.add_argument("--groups", type=int, action="append", help="groups of heads; repeatable; 0, the default: chosen")
    p.add_argument("--documents", action="store_true", help="packed documents of log-normal lengths around 4096, instead of one sequence")
    p.add_argument("--heads", type=int, default=32)
    p.add_argument("--heads-kv", type=int, default=8)
    p.add_argument("--head-dim", type=int, default=128)
    p.add_argument("--window", type=int, default=-1, help="keys before its own that a query sees")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--peaked", action="store_true", help="inputs whose rows are dominated by a few keys")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--no-peers", action="store_true")
    p.add_argument("--cpu", action="store_true", help="few tokens on the interpreter, over gloo")
    p.add_argument("--out", default="")
    d = p.add_argument_group("--decode")
    d.add_argument("--decode", action="store_true", help="time decoding: rank r has part r of the keys of each sequence")
    d.add_argument("--case", action="append", metavar="SEQUENCESxKEYS", help="repeatable; default: 16x8192, 1x524288")
    d.add_argument("--queries", type=int, default=1, help="per sequence")
    d.add_argument("--graphs", action="store_true", help="calls in CUDA graphs, so that no host time counts")
    d.add_argument("--burst-ms", type=float, default=4)
    d.add_argument("--json", action="store_true", help="print one JSON document on stdout and nothing else there")
    a = p.parse_args()
    if not a.decode and (a.case or a.json or a.graphs):
        p.error("--case, --json and --graphs go with --decode")
    return a


class Ranks:
    """The process group, and clocks of its slowest rank."""

    def __init__(self, cpu):
        dist.init_process_group("gloo" if cpu else "nccl")
        self.rank, self.count, self.cpu = dist.get_rank(), dist.get_world_size(), cpu
        self.device = torch.device("cpu") if cpu else torch.device("cuda", self.rank)
        if not cpu:
            torch.cuda.set_device(self.device)

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def once(self, call):
        """Returns the milliseconds of one call on the slowest rank. All ranks begin together."""
        dist.barrier()
        if self.cpu:
            begin = time.perf_counter()
            call()
            ms = 1000 * (time.perf_counter() - begin)
        else:
            torch.cuda.synchronize()
            first, last = torch.cuda.Event(True), torch.cuda.Event(True)
            first.record()
            call()
            last.record()
            torch.cuda.synchronize()
            ms = first.elapsed_time(last)
        slowest = torch.tensor([ms], device=self.device)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        return slowest.item()

    def medians(self, calls, rounds):
        """Returns the median of each call, by name. Every rank shuffles alike."""
        times, order = {name: [] for name in calls}, random.Random(7)
        for number in range(rounds + 1):  # the first round warms up
            names = list(calls)
            order.shuffle(names)
            for name in names:
                ms = self.once(calls[name])
                if number > 0:
                    times[name].append(ms)
        return {name: statistics.median(values) for name, values in times.items()}


def documents_of(tokens, seed):
    """Returns borders of documents whose lengths are log-normal around 4096."""
    draw, borders = random.Random(seed), [0]
    while borders[-1] < tokens:
        borders.append(min(tokens, borders[-1] + max(16, int(draw.lognormvariate(8.3, 1.0)))))
    return borders


def inputs(args, tokens, device):
    torch.manual_seed(args.seed)
    scale = 4.0 if args.peaked else 1.0
    shapes = [(tokens, h, args.head_dim) for h in (args.heads, args.heads_kv, args.heads_kv, args.heads)]
    tensors = [torch.randn(s, device=device).mul(scale if i == 0 else 1.0).bfloat16() for i, s in enumerate(shapes)]
    return tensors if args.documents else [x[None] for x in tensors]


def forward_and_backward(attend, tensors, d_out):
    """Returns the two calls to time, the output and the gradients."""
    leaves = [x.detach().clone().requires_grad_() for x in tensors]
    out = attend(*leaves)
    gradients = torch.autograd.grad(out, leaves, d_out, retain_graph=True)

    def forward():
        with torch.no_grad():
            attend(*tensors)

    return forward, lambda: torch.autograd.grad(out, leaves, d_out, retain_graph=True), (out.detach(), *gradients)


def require_close(name, found, expected):
    for what, x, y in zip(("out", "dq", "dk", "dv"), found, expected):
        error = (x.float() - y.float()).square().mean().sqrt() / y.float().square().mean().sqrt()
        if not error < 0.02:
            raise SystemExit(f"{name}: {what} differs from one GPU's by {error:.3g} of its rms")


def has_peers(args):
    return not (args.no_peers or args.documents or args.window >= 0 or args.cpu)


def contenders(args, ranks, layout, borders):
    """Returns attention over the rank's tokens, by name."""
    from fa2 import context_parallel as cp

    window = (args.window, 0) if args.window >= 0 else (-1, -1)
    made = {}
    for groups in args.groups or [0]:
        made["fa2" if groups == 0 else f"fa2, {groups} groups"] = lambda q, k, v, n=groups: cp.attention(
            q, k, v, layout=layout, groups=n, causal=True, window_size=window)
    made["fa2, all_to_all"] = lambda q, k, v: cp.attention(
        q, k, v, layout=layout, scheme="all_to_all", causal=True, window_size=window)
    made["fa2, staged"] = lambda q, k, v: cp.attention(q, k, v, layout=layout, scheme="staged", causal=True, window_size=window)
    if not has_peers(args):
        return made
    made["ring_flash_attn"] = lambda q, k, v: ring_flash_attn()(q, k, v, causal=True)
    backends = torch.nn.attention.SDPBackend
    made["torch, cuDNN"] = functools.partial(torch_attention, backends.CUDNN_ATTENTION)
    made["torch, flash"] = functools.partial(torch_attention, backends.FLASH_ATTENTION)
    return made


@functools.cache
def ring_flash_attn():
    import transformers.modeling_flash_attention_utils as utils

    # Transformers 5 lacks this function, which ring_flash_attn 0.1.8 imports and does not call here.
    utils.is_flash_attn_greater_or_equal_2_10 = getattr(utils, "is_flash_attn_greater_or_equal_2_10", lambda: True)
    from ring_flash_attn import zigzag_ring_flash_attn_func
    return zigzag_ring_flash_attn_func


def torch_attention(backend, q, k, v):
    """PyTorch's attention over the rank's tokens, within torch_context()."""
    with torch.nn.attention.sdpa_kernel(backend):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)


def torch_context(ranks, tokens):
    """Returns PyTorch's context of sharded tokens. It balances a causal mask by the same zigzag."""
    from torch.distributed.tensor.experimental import context_parallel

    mesh = dist.device_mesh.init_device_mesh(ranks.device.type, (ranks.count,))
    return context_parallel(mesh, buffers=[torch.zeros(tokens, device=ranks.device)], buffer_seq_dims=[0])


def one_gpu(args, borders, device):
    import fa2

    window = (args.window, 0) if args.window >= 0 else (-1, -1)
    if borders is None:
        return lambda q, k, v: fa2.attention(q, k, v, causal=True, window_size=window)
    table = torch.tensor(borders, dtype=torch.int32, device=device)
    longest = max(b - a for a, b in zip(borders, borders[1:]))
    return lambda q, k, v: fa2.attention(q, k, v, causal=True, window_size=window, cu_seqlens_q=table, cu_seqlens_k=table,
                                         max_seqlen_q=longest, max_seqlen_k=longest)


def rows_of(args, ranks, tokens):
    """Returns a row of Markdown per contender."""
    from fa2 import context_parallel as cp

    borders = documents_of(tokens, args.seed) if args.documents else None
    layout = cp.Layout.zigzag(tokens, ranks.count, 16 if ranks.cpu else 128, borders)
    *tensors, d_out = inputs(args, tokens, ranks.device)
    dim = 0 if args.documents else 1
    shard = lambda x: cp.shard(x, layout, dim=dim).contiguous()  # noqa: E731
    forward, backward, whole = forward_and_backward(one_gpu(args, borders, ranks.device), tensors, d_out)
    expected = [shard(x) for x in whole]
    calls = {("one GPU", "forward"): forward, ("one GPU", "backward"): backward}
    with torch_context(ranks, tokens) if has_peers(args) else contextlib.nullcontext():
        for name, attend in contenders(args, ranks, layout, borders).items():
            try:
                forward, backward, found = forward_and_backward(attend, [shard(x) for x in tensors], shard(d_out))
            except Exception as error:
                if name.startswith("fa2"):
                    raise
                ranks.say(f"no {name}: {str(error)[:300]}")
                continue
            require_close(name, found, expected)
            calls[name, "forward"], calls[name, "backward"] = forward, backward
        ms = ranks.medians(calls, args.rounds)
    half = {way: ms["one GPU", way] / ranks.count for way in ("forward", "backward")}
    return [
        f"| {tokens} | {name} | {ms[name, 'forward']:.3f} | {ms[name, 'backward']:.3f} "
        f"| {half['forward'] / ms[name, 'forward']:.3f} | {half['backward'] / ms[name, 'backward']:.3f} |"
        for name in dict.fromkeys(name for name, _ in calls)
    ]


def measure(args, ranks):
    """Returns lines of Markdown. Rank 0 prints them."""
    lines = ["| tokens | | forward, ms | backward, ms | efficiency | backward's |", "|--:|---|--:|--:|--:|--:|"]
    for tokens in args.seqlen or (8192, 32768, 65536, 131072):
        for line in rows_of(args, ranks, tokens):
            lines.append(line)
            ranks.say(line)
    return lines


def main():
    args = parse_args()
    ranks = Ranks(args.cpu)
    if args.cpu:
        args.seqlen, args.heads, args.heads_kv, args.head_dim, args.rounds = [96], 4, 2, 32, 1
    lines = context_parallel_decode.measure(args, ranks) if args.decode else measure(args, ranks)
    if args.out and ranks.rank == 0:
        name = "the interpreter" if args.cpu else torch.cuda.get_device_name()
        with open(args.out, "w") as file:
            file.write(f"{ranks.count} x {name}, PyTorch {torch.__version__}\n\n" + "\n".join(lines) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
