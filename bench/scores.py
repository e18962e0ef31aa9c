"""Times functions of scores as texts, beside fa2's built-in ones, plain attention, and compiled FlexAttention with the same
function: CUDA graphs, an order that is shuffled every round, medians. Refuses to time a wrong result. Writes Markdown.
Masks that capture tensors hold their map of blocks, as FlexAttention its BlockMask; "map each call" makes one in each launch.

  python3 bench/scores.py --out docs/measurements/scores.md
  python3 bench/scores.py --head-dim 64 --seqlen 4096 --case alibi --backward
"""
import argparse
import dataclasses
import math
import os
import random
import sys
from typing import Any, Callable

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import c_binding as binding  # noqa: E402
import compare  # noqa: E402
import variants  # noqa: E402

SIDE = 64  # of the image of the neighbourhood
BIASES, MODS, MASKS = "bias", "mod", "mask"


@dataclasses.dataclass
class Case:
    kind: str
    text: str
    function: Callable[..., Any]  # FlexAttention's: of (score, b, h, q, k), or of (b, h, q, k); captures by name in `self.captured`
    captures: Callable[[Any], dict] = lambda q: {}  # of Q: name -> tensor


captured: dict = {}  # of the case that runs, by name


def slopes_of(q):
    import torch

    return {"slopes": torch.exp2(-0.5 * torch.arange(1, q.shape[1] + 1, device="cuda", dtype=torch.float32))}


def table_of(q):
    import torch

    return {"table": torch.randn(q.shape[1], 2 * q.shape[2], device="cuda")}


def documents_of(q):
    import torch

    torch.manual_seed(3)
    ids = torch.randint(0, q.shape[2] // 512, (q.shape[2],), device="cuda").sort().values.to(torch.int32)
    return {"ids": ids.contiguous()}


CASES = {
    "alibi": Case(BIASES, "return -exp2(-0.5f * (at.head + 1)) * abs(at.query - at.key);", lambda s, b, h, i, j: s - 2.0 ** (-0.5 * (h + 1)) * (i - j).abs()),
    "slopes": Case(BIASES, "return -slopes(at.head) * abs(at.query - at.key);", lambda s, b, h, i, j: s - captured["slopes"][h] * (i - j).abs(), slopes_of),
    "table": Case(BIASES, "return table(at.head, at.query - at.key + at.queries);", lambda s, b, h, i, j: s + captured["table"][h, i - j + captured["table"].shape[1] // 2], table_of),
    "distance": Case(BIASES, "const float d = 0.01f * (at.key - at.query); return -d * d;", lambda s, b, h, i, j: s - (0.01 * (j - i)) ** 2),
    "softcap": Case(MODS, "return 20.0f * tanh(score / 20.0f);", lambda s, b, h, i, j: 20 * (s / 20).tanh()),
    "causal": Case(MASKS, "return at.key <= at.query;", lambda b, h, i, j: j <= i),
    "window": Case(MASKS, "return at.key <= at.query && at.query - at.key < 1024;", lambda b, h, i, j: (j <= i) & (i - j < 1024)),
    "prefix": Case(MASKS, "return at.key < 1024 || at.key <= at.query;", lambda b, h, i, j: (j < 1024) | (j <= i)),
    "documents": Case(MASKS, "return at.key <= at.query && ids(at.query) == ids(at.key);", lambda b, h, i, j: (j <= i) & (captured["ids"][i] == captured["ids"][j]), documents_of),
    "neighbourhood": Case(MASKS, f"return abs(at.query / {SIDE} - at.key / {SIDE}) <= 8 && abs(at.query % {SIDE} - at.key % {SIDE}) <= 8;",
                          lambda b, h, i, j: ((i // SIDE - j // SIDE).abs() <= 8) & ((i % SIDE - j % SIDE).abs() <= 8)),
    "sink": Case(MASKS, "return at.key <= at.query && (at.key < 64 || at.query - at.key < 1024);", lambda b, h, i, j: (j <= i) & ((j < 64) | (i - j < 1024))),
    "dilated": Case(MASKS, "return (at.key - at.query) % 2 == 0;", lambda b, h, i, j: (j - i) % 2 == 0),
}


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default="build/libfa2.so")
    p.add_argument("--case", action="append", choices=list(CASES), help="repeatable; default: all")
    p.add_argument("--backward", action="store_true", help="the forward, and then gradients of Q, K and V")
    p.add_argument("--head-dim", type=int, default=128)
    p.add_argument("--seqlen", type=int, action="append", help="repeatable; default: 4096 and 16384")
    p.add_argument("--tokens", type=int, default=16384, help="batch * seqlen")
    p.add_argument("--heads", type=int, default=16)
    p.add_argument("--config", help="pins the configuration of the texts' forward kernel")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--burst-ms", type=float, default=5.0)
    p.add_argument("--out", default="")
    return p.parse_args()


def flex(case, q, k, v):
    """Returns a function that runs compiled FlexAttention."""
    import torch
    from torch.nn.attention import flex_attention as flex

    run = torch.compile(flex.flex_attention, dynamic=False)
    if case.kind != MASKS:
        return lambda: run(q, k, v, score_mod=case.function)
    block_mask = flex.create_block_mask(case.function, None, None, q.shape[2], k.shape[2], device="cuda")
    return lambda: run(q, k, v, block_mask=block_mask)


def attention(case, q, k, v):
    """Returns the first batch entry's and head's output in float32 maths; differentiable."""
    import torch

    i, j = torch.arange(q.shape[0], device="cuda")[:, None], torch.arange(k.shape[0], device="cuda")[None, :]
    zero = torch.zeros((), device="cuda", dtype=torch.int64)
    s = q @ k.T / math.sqrt(q.shape[1])
    s = s.masked_fill(~case.function(zero, zero, i, j), -math.inf) if case.kind == MASKS else case.function(s, zero, zero, i, j)
    return s.softmax(-1) @ v


def reference(case, q, k, v, d_out):
    """Returns the first entry's and head's output, or with d_out their gradients of Q, K and V."""
    import torch

    first = [t[0, 0].detach().float() for t in (q, k, v)]
    if d_out is None:
        first[0] = first[0][:256]
        return [attention(case, *first)]
    for t in first:
        t.requires_grad_()
    return torch.autograd.grad(attention(case, *first), first, d_out[0, 0].float())


def training_of_flex(case, q, k, v, d_out):
    """Returns a function that runs FlexAttention's forward and backward."""
    import torch

    inputs = [t.detach().requires_grad_() for t in (q, k, v)]
    forward = flex(case, *inputs)
    return lambda: torch.autograd.grad(forward(), inputs, d_out)


def run_of(library, variant, q, k, v, d_out, holds_map):
    """Returns (function that launches, its results). `holds_map`: the map of a mask's blocks is made before."""
    import torch

    o = torch.full_like(q, math.nan)
    lse = torch.empty(q.shape[:3], device="cuda") if d_out is not None else None
    forward, _ = library.plan(q, k, v, o, False, lse=lse, variant=variant, holds_map=holds_map)
    forward()
    if d_out is None:
        return forward, [o]
    gradients = [torch.full_like(t, math.nan) for t in (q, k, v)]
    backward, _ = library.backward_plan(q, k, v, o, lse, d_out, gradients, False, variant=variant, holds_map=holds_map)
    backward()
    return lambda: (forward(), backward()), gradients


def systems_of(library, pinned, name, q, k, v, d_out):
    """Returns name -> function that launches."""
    import torch

    case = CASES[name]
    captured.clear()
    captured.update(case.captures(q))
    expected = reference(case, q, k, v, d_out)
    text = variants.Variants(score_text=library.make_score_text(**{case.kind: case.text}, captures=captured), captures=list(captured.values()))
    wanted = {"plain": variants.Variants(), "text": text}
    needs_map = case.kind == MASKS and bool(captured)
    if needs_map:
        wanted["map each call"] = text
    if name in ("alibi", "slopes"):
        wanted["built in"] = variants.Variants(slopes=slopes_of(q)["slopes"])
    if name == "softcap":
        wanted["built in"] = variants.Variants(softcap=20.0)
    if name == "window":
        wanted["built in"] = variants.Variants(window_left=1023, window_right=0)
    systems, results = {}, {}
    for system, variant in wanted.items():
        systems[system], results[system] = run_of(pinned if variant is text else library, variant, q, k, v, d_out, needs_map and system == "text")
    try:
        systems["FlexAttention"] = flex(case, q, k, v) if d_out is None else training_of_flex(case, q, k, v, d_out)
        made = systems["FlexAttention"]()
        results["FlexAttention"] = [made] if d_out is None else made
    except Exception as error:  # noqa: BLE001: whatever the compiler of this version raises
        print("FlexAttention:", str(error)[:200])
        systems.pop("FlexAttention", None)
    for system, made in results.items():
        for got, want in zip(made, expected):
            error = (got[0, 0, : want.shape[0]].float() - want).abs().max().item() / max(1.0, want.abs().max().item())
            if system != "plain" and not error < 0.02:
                raise SystemExit(f"{name}: {system} is wrong by {error}")
    return systems


def main():
    import torch

    a = parse_args()
    library, pinned, rng = binding.Library(a.library), binding.Library(a.library, config=a.config), random.Random(1)
    lines = ["| case | keys | plain | built in | text | map each call | FlexAttention | speed of text over plain | over FlexAttention |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for name in a.case or CASES:
        for seqlen in a.seqlen or (4096, 16384):
            torch.manual_seed(0)
            shape = (max(1, a.tokens // seqlen), seqlen, a.heads, a.head_dim)
            q, k, v, d_out = (torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(4))
            systems = systems_of(library, pinned, name, q, k, v, d_out if a.backward else None)
            bursts = {s: compare.capture(run, a.burst_ms) for s, run in systems.items()}
            us = {s: 1000 * t[len(t) // 2] for s, t in compare.time_bursts(bursts, a.rounds, rng).items()}
            cell = lambda s: f"{us[s]:.0f}" if s in us else "-"  # noqa: E731
            ratio = lambda s, t: f"{us[s] / us[t]:.2f}" if s in us else "-"  # noqa: E731
            lines.append(f"| {name} | {seqlen} | " + " | ".join(cell(s) for s in ("plain", "built in", "text", "map each call", "FlexAttention"))
                         + f" | {ratio('plain', 'text')} | {ratio('FlexAttention', 'text')} |")
            print(lines[-1], flush=True)
            torch._dynamo.reset()
    what = "forward and backward" if a.backward else "forward"
    text = "\n".join([f"{torch.cuda.get_device_name()}, bf16, d {a.head_dim}, {a.heads} heads, {a.tokens} tokens, {what}; us", "", *lines])
    if a.out:
        with open(a.out, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
