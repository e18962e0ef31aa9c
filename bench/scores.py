"""Times functions of scores as texts, beside fa2's built-in ones, plain attention, and compiled FlexAttention with the same
function: CUDA graphs, an order that is shuffled every round, medians. Refuses to time a wrong result. Writes Markdown.

  python3 bench/scores.py --out docs/measurements/scores.md
  python3 bench/scores.py --head-dim 64 --seqlen 4096 --case alibi
"""
import argparse
import math
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import c_binding as binding  # noqa: E402
import compare  # noqa: E402
import variants  # noqa: E402

WINDOW = 1024
# name: (texts, FlexAttention's score_mod or mask_mod, whether it is a mask)
CASES = {
    "alibi": (dict(bias="return -exp2(-0.5f * (at.head + 1)) * abs(at.query - at.key);"), lambda s, b, h, i, j: s - 2.0 ** (-0.5 * (h + 1)) * (i - j).abs(), False),
    "softcap": (dict(mod="return 20.0f * tanh(score / 20.0f);"), lambda s, b, h, i, j: 20 * (s / 20).tanh(), False),
    "distance": (dict(bias="const float d = 0.01f * (at.key - at.query); return -d * d;"), lambda s, b, h, i, j: s - (0.01 * (j - i)) ** 2, False),
    "prefix": (dict(mask="return at.key < 1024 || at.key <= at.query;"), lambda b, h, i, j: (j < 1024) | (j <= i), True),
    "dilated": (dict(mask="return (at.key - at.query) % 2 == 0;"), lambda b, h, i, j: (j - i) % 2 == 0, True),
}


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default="build/libfa2.so")
    p.add_argument("--case", action="append", choices=list(CASES), help="repeatable; default: all")
    p.add_argument("--head-dim", type=int, default=128)
    p.add_argument("--seqlen", type=int, action="append", help="repeatable; default: 4096 and 16384")
    p.add_argument("--tokens", type=int, default=16384, help="batch * seqlen")
    p.add_argument("--heads", type=int, default=16)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--burst-ms", type=float, default=5.0)
    p.add_argument("--out", default="")
    return p.parse_args()


def flex(function, is_mask, q, k, v):
    """Returns a function that runs compiled FlexAttention."""
    import torch
    from torch.nn.attention import flex_attention as flex

    run = torch.compile(flex.flex_attention, dynamic=False)
    if not is_mask:
        return lambda: run(q, k, v, score_mod=function)
    block_mask = flex.create_block_mask(function, None, None, q.shape[2], k.shape[2], device="cuda")
    return lambda: run(q, k, v, block_mask=block_mask)


def reference(function, is_mask, q, k, v):
    """Returns rows of the first batch entry and head in float32 maths."""
    import torch

    n = 256
    i, j = torch.arange(n, device="cuda")[:, None], torch.arange(k.shape[2], device="cuda")[None, :]
    zero = torch.zeros((), device="cuda", dtype=torch.int64)
    s = q[0, 0, :n].float() @ k[0, 0].float().T / math.sqrt(q.shape[3])
    s = s.masked_fill(~function(zero, zero, i, j), -math.inf) if is_mask else function(s, zero, zero, i, j)
    return s.softmax(-1) @ v[0, 0].float()


def systems_of(library, name, q, k, v):
    """Returns name -> function that launches."""
    import torch

    texts, function, is_mask = CASES[name]
    expected = reference(function, is_mask, q, k, v)
    systems, outputs = {}, {}
    wanted = {"plain": variants.Variants(), "text": variants.Variants(score_text=library.make_score_text(**texts))}
    if name == "alibi":
        slopes = torch.exp2(-0.5 * torch.arange(1, q.shape[1] + 1, device="cuda"))
        wanted["built in"] = variants.Variants(slopes=slopes)
    if name == "softcap":
        wanted["built in"] = variants.Variants(softcap=20.0)
    for system, variant in wanted.items():
        o = torch.full_like(q, math.nan)
        systems[system], _ = library.plan(q, k, v, o, False, variant=variant)
        systems[system]()
        outputs[system] = o
    try:
        systems["FlexAttention"] = flex(function, is_mask, q, k, v)
        outputs["FlexAttention"] = systems["FlexAttention"]()
    except Exception as error:  # noqa: BLE001: whatever the compiler of this version raises
        print("FlexAttention:", str(error)[:200])
        systems.pop("FlexAttention", None)
    for system, o in outputs.items():
        error = (o[0, 0, : expected.shape[0]].float() - expected).abs().max().item()
        if system != "plain" and not error < 0.02:
            raise SystemExit(f"{name}: {system} is wrong by {error}")
    return systems


def main():
    import torch

    a = parse_args()
    library, rng = binding.Library(a.library), random.Random(1)
    lines = ["| case | keys | plain | built in | text | FlexAttention | speed of text over plain | over FlexAttention |", "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for name in a.case or CASES:
        for seqlen in a.seqlen or (4096, 16384):
            torch.manual_seed(0)
            shape = (max(1, a.tokens // seqlen), seqlen, a.heads, a.head_dim)
            q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in "qkv")
            systems = systems_of(library, name, q, k, v)
            bursts = {s: compare.capture(run, a.burst_ms) for s, run in systems.items()}
            us = {s: 1000 * t[len(t) // 2] for s, t in compare.time_bursts(bursts, a.rounds, rng).items()}
            cell = lambda s: f"{us[s]:.0f}" if s in us else "-"  # noqa: E731
            ratio = lambda s, t: f"{us[s] / us[t]:.2f}" if s in us else "-"  # noqa: E731
            lines.append(f"| {name} | {seqlen} | " + " | ".join(cell(s) for s in ("plain", "built in", "text", "FlexAttention"))
                         + f" | {ratio('plain', 'text')} | {ratio('FlexAttention', 'text')} |")
            print(lines[-1], flush=True)
            torch._dynamo.reset()
    text = "\n".join([f"{torch.cuda.get_device_name()}, bf16, d {a.head_dim}, {a.heads} heads, {a.tokens} tokens; us", "", *lines])
    if a.out:
        with open(a.out, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
