"""Times masks of random blocks, 128 x 128, beside attention to all keys and compiled FlexAttention, by the visible block; and how long
fa2 and compiled create_block_mask() take to map masks. CUDA graphs, an order that is shuffled every round, medians. Refuses to time
a wrong result. What cannot be captured is timed without a graph, and marked. Writes Markdown.

  python3 bench/block_masks.py --out docs/measurements/block_masks.md
  python3 bench/block_masks.py --seqlen 4096 --density 0.1 --backward
  python3 bench/block_masks.py --maps --seqlen 32768
"""
import argparse
import math
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bias_tensors  # noqa: E402
import c_binding as binding  # noqa: E402
import compare  # noqa: E402
import scores  # noqa: E402
import variants  # noqa: E402

BLOCK = 128


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default="build/libfa2.so")
    p.add_argument("--maps", action="store_true", help="the maps alone, of documents and of random blocks")
    p.add_argument("--backward", action="store_true", help="the forward, and then gradients of Q, K and V")
    p.add_argument("--head-dim", type=int, default=128)
    p.add_argument("--seqlen", type=int, action="append", help="repeatable; default: 4096, 8192 and 32768, of maps 32768")
    p.add_argument("--density", type=float, action="append", help="share of blocks that queries see; repeatable; default: 0.1 and 0.5")
    p.add_argument("--tokens", type=int, default=32768, help="batch * seqlen")
    p.add_argument("--heads", type=int, default=16)
    p.add_argument("--no-flex", action="store_true")
    p.add_argument("--no-block", action="store_true", help="do not tell fa2 the size of blocks")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--burst-ms", type=float, default=5.0)
    p.add_argument("--out", default="")
    return p.parse_args()


def random_blocks(seqlen, density):
    """Returns a table (query blocks, key blocks) of bools on the GPU; each row has as many blocks, its own among them."""
    import torch

    count = seqlen // BLOCK
    order = torch.rand(count, count, device="cuda")
    order.fill_diagonal_(2.0)
    chosen = order.topk(max(1, round(density * count)), dim=1).indices
    return torch.zeros(count, count, dtype=torch.bool, device="cuda").scatter_(1, chosen, True)


def variant_of(library, table, tells_block):
    text = f"return blocks(at.query / {BLOCK}, at.key / {BLOCK});"
    number = library.make_score_text(mask=text, captures={"blocks": table}, mask_block=(BLOCK, BLOCK) if tells_block else (0, 0))
    return variants.Variants(score_text=number, captures=[table])


def sees(table):
    return lambda b, h, i, j: table[i // BLOCK, j // BLOCK]


def flex_of(table, q, k, v, d_out):
    """Returns a function that runs compiled FlexAttention, forward or forward and backward."""
    import torch
    from torch.nn.attention import flex_attention as flex

    run = torch.compile(flex.flex_attention, dynamic=False)
    mask = flex.create_block_mask(sees(table), None, None, q.shape[2], k.shape[2], device="cuda")
    if d_out is None:
        return lambda: run(q, k, v, block_mask=mask)
    inputs = [t.detach().requires_grad_() for t in (q, k, v)]
    return lambda: torch.autograd.grad(run(*inputs, block_mask=mask), inputs, d_out)


def expected(table, q, k, v, d_out):
    """Returns the last head's output of 256 queries, or gradients of Q, K and V, in float32 maths."""
    import torch

    first = [t[-1, -1].detach().float() for t in (q, k, v)]
    if d_out is None:
        first[0] = first[0][:256]
    else:
        for t in first:
            t.requires_grad_()
    i, j = torch.arange(first[0].shape[0], device="cuda")[:, None], torch.arange(k.shape[2], device="cuda")[None, :]
    s = (first[0] @ first[1].T / math.sqrt(q.shape[3])).masked_fill(~sees(table)(0, 0, i, j), -math.inf)
    out = s.softmax(-1) @ first[2]
    return [out] if d_out is None else torch.autograd.grad(out, first, d_out[-1, -1].float())


def timed(runs, a, rng):
    """Returns name -> us, and the names of those that no graph can hold."""
    bursts, uncaptured = {}, set()
    for name, run in runs.items():
        column, bursts[name] = bias_tensors.burst_of(name, run, a.burst_ms, None)
        if column != name:
            uncaptured.add(name)
    return {name: 1000 * t[len(t) // 2] for name, t in compare.time_bursts(bursts, a.rounds, rng).items()}, uncaptured


def blocks_line(library, a, rng, seqlen, density):
    import torch

    torch.manual_seed(0)
    shape = (max(1, a.tokens // seqlen), seqlen, a.heads, a.head_dim)
    q, k, v, d_out = (torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(4))
    d_out = d_out if a.backward else None
    table = random_blocks(seqlen, density)
    variant, runs = variant_of(library, table, not a.no_block), {}
    runs["all keys"], _ = scores.run_of(library, variants.Variants(), q, k, v, d_out, False)
    runs["blocks"], made = scores.run_of(library, variant, q, k, v, d_out, True)
    runs["map each call"], _ = scores.run_of(library, variant, q, k, v, d_out, False)
    for got, want in zip(made, expected(table, q, k, v, d_out)):
        error = (got[-1, -1, : want.shape[0]].float() - want).abs().max().item() / max(1.0, want.abs().max().item())
        if not error < 0.02:
            raise SystemExit(f"{seqlen} keys, density {density}: wrong by {error}")
    if not a.no_flex:
        runs["FlexAttention"] = flex_of(table, q, k, v, d_out)
        runs["FlexAttention"]()
    us, _ = timed(runs, a, rng)
    share = table.float().mean().item()
    per_block = share * us["all keys"] / us["blocks"]
    over = f"{us['FlexAttention'] / us['blocks']:.2f}" if "FlexAttention" in us else "-"
    return (f"| {seqlen} | {100 * share:.0f}% | " + " | ".join(f"{us[name]:.0f}" if name in us else "-" for name in ("all keys", "blocks", "map each call", "FlexAttention"))
            + f" | {per_block:.2f} | {over} |")


def maps_lines(library, a, rng, seqlen):
    import torch
    from torch.nn.attention import flex_attention as flex

    torch.manual_seed(0)
    q, k, v = (torch.randn((1, 2 * a.heads, seqlen, a.head_dim), device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o = torch.empty_like(q)
    ids = torch.randint(0, seqlen // 2048, (seqlen,), device="cuda").sort().values.to(torch.int32)
    documents = variants.Variants(score_text=library.make_score_text(mask=scores.CASES["documents"].text, captures={"ids": ids}), captures=[ids])
    table = random_blocks(seqlen, 0.1)
    create = torch.compile(flex.create_block_mask)
    masks = {"documents, causal": (documents, lambda b, h, i, j: (j <= i) & (ids[i] == ids[j])), "random blocks": (variant_of(library, table, not a.no_block), sees(table))}
    for name, (variant, function) in masks.items():
        runs = {"all keys": library.plan(q, k, v, o, False)[0], "map": library.map_maker(q, k, v, o, variant)}
        if not a.no_flex:
            runs["create_block_mask"] = lambda function=function: create(function, None, None, seqlen, seqlen, device="cuda")
            runs["create_block_mask"]()
        us, uncaptured = timed(runs, a, rng)
        theirs = over = "-"
        if "create_block_mask" in us:
            theirs = f"{us['create_block_mask']:.0f}" + ("*" if "create_block_mask" in uncaptured else "")
            over = f"1/{us['create_block_mask'] / us['map']:.0f}"
        yield f"| {name} | {seqlen} | {us['map']:.1f} | {theirs} | {over} | {us['all keys']:.0f} | {100 * us['map'] / us['all keys']:.1f}% |"


def main():
    import torch

    a = parse_args()
    library, rng = binding.Library(a.library), random.Random(1)
    if a.maps:
        lines = [f"| mask | keys | map | create_block_mask, compiled | map over it | forward of {2 * a.heads} heads, all keys | map over it |", "|---|--:|--:|--:|--:|--:|--:|"]
    else:
        lines = ["| keys | visible | all keys | blocks | map each call | FlexAttention | speed of a visible block | over FlexAttention |", "|--:|--:|--:|--:|--:|--:|--:|--:|"]
    print("\n".join(lines))
    for seqlen in a.seqlen or ([32768] if a.maps else [4096, 8192, 32768]):
        rows = maps_lines(library, a, rng, seqlen) if a.maps else (blocks_line(library, a, rng, seqlen, x) for x in a.density or (0.1, 0.5))
        for row in rows:
            lines.append(row)
            print(row, flush=True)
            torch._dynamo.reset()
    what = "maps" if a.maps else "forward and backward" if a.backward else "forward"
    if a.out:
        with open(a.out, "w") as file:
            file.write("\n".join([f"{torch.cuda.get_device_name()}, bf16, d {a.head_dim}, {a.heads} heads, {a.tokens} tokens, {what}; us. *: without a CUDA graph", "", *lines, ""]))


if __name__ == "__main__":
    main()
