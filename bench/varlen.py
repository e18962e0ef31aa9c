"""Times packed sequences, batched ones of equal lengths, FlexAttention with a document mask and PyTorch's varlen_attn:
one process, CUDA graphs of short bursts, an order that is shuffled every round, medians. TFLOP/s count the pairs that
the sequences see. "batched" has as many sequences, each of the mean length. Refuses to time a wrong result. Writes JSON
and Markdown.

  python3 bench/varlen.py --out docs/measurements/varlen               # the standard mixes
  python3 bench/varlen.py --mix 512x128 --mix lognormal:64:32768:1 --causal yes --peers
  python3 bench/varlen.py --backward --head-dim 128 --mix lognormal:64:32768:1 --causal yes
"""
import argparse
import math
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backward  # noqa: E402
import compare  # noqa: E402
import c_binding as binding  # noqa: E402

SKEWED = [f"lognormal:64:32768:{seed}" for seed in (1, 2, 3)]


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default=os.path.join(here, "../build/libfa2.so"))
    p.add_argument("--mix", action="append", help="SEQUENCESxLENGTH or lognormal:SEQUENCES:TOTAL:SEED (sigma 1); default: equal "
                   "lengths of 2k to 16k at 16k tokens, three skewed mixes, 512 short sequences")
    p.add_argument("--head-dim", type=lambda text: [int(x) for x in text.split(",")], default=[64, 128, 256])
    p.add_argument("--causal", choices=["both", "yes", "no"], default="both")
    p.add_argument("--tune", choices=["off", "stored", "now"], default="off")
    p.add_argument("--rounds", type=int, default=11)
    p.add_argument("--burst-ms", type=float, default=8.0)
    p.add_argument("--peers", action="store_true", help="FlexAttention and varlen_attn too (slow to start)")
    p.add_argument("--backward", action="store_true", help="the gradients of Q, K and V in place of the forward; without peers")
    p.add_argument("--commit", default="", help="recorded in the output; default: git rev-parse")
    p.add_argument("--out", default="", help="writes OUT.json and OUT.md")
    a = p.parse_args()
    if a.backward and a.peers:
        p.error("--backward has no peers")
    return a


def lengths_of(mix):
    if not mix.startswith("lognormal:"):
        sequences, length = (int(x) for x in mix.split("x"))
        return [length] * sequences
    sequences, total, seed = (int(x) for x in mix.split(":")[1:])
    rng = random.Random(seed)
    weights = [math.exp(rng.gauss(0, 1)) for _ in range(sequences)]
    lengths = [max(1, int(w / sum(weights) * total)) for w in weights]
    lengths[lengths.index(max(lengths))] += total - sum(lengths)
    return lengths


class Packed:
    """Packed sequences of `heads` heads, as (1, heads, total, dim) views of (total, heads, dim)."""

    def __init__(self, lengths, heads, d):
        import torch

        self.lengths, self.total = lengths, sum(lengths)
        borders = [0]
        for length in lengths:
            borders.append(borders[-1] + length)
        self.borders, self.cu_seqlens = borders, torch.tensor(borders, device="cuda", dtype=torch.int32)
        self.q, self.k, self.v = (torch.randn(self.total, heads, d, device="cuda", dtype=torch.float16).transpose(0, 1)[None]
                                  for _ in range(3))

    def pairs(self, causal):
        return sum(n * (n + 1) / 2 if causal else n * n for n in self.lengths)

    def error(self, o, causal):
        """Returns max |o - reference| over the last rows of the longest and of the last sequence, one head each, in
        float32 maths."""
        import torch

        worst = 0.0
        for b, h in ((self.lengths.index(max(self.lengths)), 0), (len(self.lengths) - 1, o.shape[1] - 1)):
            keys, n = slice(self.borders[b], self.borders[b + 1]), self.lengths[b]
            first = max(0, n - 512)
            rows = slice(self.borders[b] + first, self.borders[b + 1])
            s = self.q[0, h, rows].float() @ self.k[0, h, keys].float().T / math.sqrt(o.shape[3])
            if causal:
                i = torch.arange(first, n, device="cuda")[:, None]
                s.masked_fill_(torch.arange(n, device="cuda")[None] > i, -math.inf)
            worst = max(worst, (s.softmax(-1) @ self.v[0, h, keys].float() - o[0, h, rows].float()).abs().max().item())
        return worst


    def gradient_error(self, d_out, gradients, causal):
        """Returns the largest error of a gradient relative to its largest element, over the longest and the last
        sequence, one head each, in float32 maths."""
        import torch

        worst = 0.0
        for b, h in ((self.lengths.index(max(self.lengths)), 0), (len(self.lengths) - 1, d_out.shape[1] - 1)):
            rows = slice(self.borders[b], self.borders[b + 1])
            q, k, v = (t[0, h, rows].float().requires_grad_() for t in (self.q, self.k, self.v))
            s = q @ k.T / math.sqrt(d_out.shape[3])
            if causal:
                s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -math.inf)
            (s.softmax(-1) @ v).backward(d_out[0, h, rows].float())
            for t, of in zip((q, k, v), gradients):
                worst = max(worst, ((of[0, h, rows].float() - t.grad).abs().max() / t.grad.abs().max()).item())
        return worst


def backward_plan(library, q, k, v, causal, packed=None):
    """Returns (run, explanation, error) of the gradients. error() computes their error."""
    import torch

    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda", dtype=torch.float32)
    forward, _ = library.plan(q, k, v, o, causal, lse=lse, packed=packed)
    forward()
    d_out, gradients = torch.randn_like(o), [torch.full_like(t, math.nan) for t in (q, k, v)]
    run, explained = library.backward_plan(q, k, v, o, lse, d_out, gradients, causal, packed=packed)
    return run, explained, lambda: packed.gradient_error(d_out, gradients, causal)


def forward_plan(library, q, k, v, causal, packed=None):
    """Like backward_plan(), for the forward."""
    import torch

    o = torch.full_like(q, math.nan)
    run, explained = library.plan(q, k, v, o, causal, packed=packed)
    return run, explained, lambda: packed.error(o, causal)


def peers(packed, causal):
    """Returns name -> function for PyTorch's attention of packed sequences."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    sequence = torch.repeat_interleave(torch.arange(len(packed.lengths), device="cuda"),
                                       torch.tensor(packed.lengths, device="cuda"))
    same = lambda b, h, i, j: sequence[i] == sequence[j]  # noqa: E731
    before = lambda b, h, i, j: (sequence[i] == sequence[j]) & (i >= j)  # noqa: E731
    mask = create_block_mask(before if causal else same, None, None, packed.total, packed.total, device="cuda", _compile=True)
    flex = torch.compile(flex_attention)
    systems = {"FLEX": lambda: flex(packed.q, packed.k, packed.v, block_mask=mask)}
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return systems
    q, k, v = (t[0].transpose(0, 1) for t in (packed.q, packed.k, packed.v))
    longest, window = max(packed.lengths), (-1, 0) if causal else (-1, -1)

    def varlen():
        try:
            return varlen_attn(q, k, v, packed.cu_seqlens, packed.cu_seqlens, longest, longest, window_size=window)
        except TypeError:  # PyTorch 2.10 raises this
            return varlen_attn(q, k, v, packed.cu_seqlens, packed.cu_seqlens, longest, longest, is_causal=causal)

    return {**systems, "VARLEN": varlen}


def measure_mix(library, mix, d, causal, a, rng):
    import torch

    heads, lengths = 2048 // d, lengths_of(mix)
    packed = Packed(lengths, heads, d)
    plan, limit, forwards = (backward_plan, 1e-2, backward.Backward.forwards) if a.backward else (forward_plan, 2e-3, 1)
    run, explained, error_of = plan(library, packed.q, packed.k, packed.v, causal, packed)
    run()
    error = error_of()
    if not error <= limit:
        raise SystemExit(f"fa2 is wrong at {mix}, d {d}: error {error}; nothing is timed")
    mean = round(packed.total / len(lengths))
    q, k, v = (torch.randn(len(lengths), mean, heads, d, device="cuda", dtype=torch.float16).transpose(1, 2) for _ in range(3))
    batched, _, _ = plan(library, q, k, v, causal)
    systems = {"fa2": run, "batched": batched, **(peers(packed, causal) if a.peers else {})}
    times, dropped = compare.measure(systems, a, rng)
    pairs = lambda name: len(lengths) * (mean * (mean + 1) / 2 if causal else mean * mean) if name == "batched" else packed.pairs(causal)  # noqa: E731
    row = dict(mix=mix, d=d, causal=causal, heads=heads, total=packed.total, longest=max(lengths), error=error, dropped=dropped)
    row["config"] = "; ".join(map(compare.config_text, explained["kernels"]))
    row["us"] = {n: 1e3 * t[len(t) // 2] for n, t in times.items()}
    row["tflops"] = {n: 4 * forwards * heads * d * pairs(n) / us / 1e6 for n, us in row["us"].items()}
    return row


def markdown(rows, facts):
    names = [n for n in ("fa2", "batched", "FLEX", "VARLEN") if any(n in r["tflops"] for r in rows)]
    text = ["# Packed sequences, TFLOP/s over visible pairs", ""] + [f"- {k}: {v}" for k, v in facts.items()] + [""]
    text.append("| d | mask | mix | tokens | longest | " + " | ".join(names) + " | " + " | ".join(f"fa2/{n}" for n in names[1:]) + " |")
    text.append("|" + "---|" * (4 + 2 * len(names)))
    for r in rows:
        t = r["tflops"]
        cells = [f"{t[n]:.0f}" if n in t else "-" for n in names] + [f"{t['fa2'] / t[n]:.3f}" if n in t else "-" for n in names[1:]]
        text.append(f"| {r['d']} | {'causal' if r['causal'] else 'full'} | {r['mix']} | {r['total']} | {r['longest']} | " + " | ".join(cells) + " |")
    return "\n".join(text) + "\n"


def main():
    a = arguments()
    library = binding.Library(a.library, a.tune)
    facts, rng, rows = compare.machine_facts(library, a), random.Random(1), []
    mixes = a.mix or [f"{16384 // n}x{n}" for n in (2048, 4096, 8192, 16384)]
    points = [(mix, d, causal) for d in a.head_dim for causal in compare.masks_of(a) for mix in mixes]
    if not a.mix:
        points += [(mix, 128, True) for mix in SKEWED + ["512x128"]]
    for mix, d, causal in points:
        rows.append(measure_mix(library, mix, d, causal, a, rng))
        t = rows[-1]["tflops"]
        print(f"d {d:3} {'causal' if causal else 'full':6} {mix:24} " + "  ".join(f"{n} {x:4.0f}" for n, x in t.items())
              + f"  of batched {t['fa2'] / t['batched']:.3f}  {rows[-1]['dropped'] or ''}", flush=True)
    if a.out:
        compare.write(a.out, facts, rows, markdown(rows, facts))


if __name__ == "__main__":
    main()
