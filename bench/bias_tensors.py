"""Times a tensor of biases, one a score, beside plain attention, PyTorch's scaled_dot_product_attention with the same attn_mask, and
compiled FlexAttention: CUDA graphs, an order that is shuffled every round, medians. Refuses to time a wrong result. A system that
cannot be captured is timed without a graph, in a column that says so. Writes Markdown.

  python3 bench/bias_tensors.py --out docs/measurements/bias_tensors.md
  python3 bench/bias_tensors.py --backward --shape 1,h --seqlen 4096
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

SHAPES = {"1,h": lambda b, h: (1, h), "b,h": lambda b, h: (b, h), "b,1": lambda b, h: (b, 1), "1,1": lambda b, h: (1, 1)}
SYSTEMS = ("plain", "with bias", "EFFICIENT", "CUDNN", "FLEX")
UNCAPTURED_CALLS = 8


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default="build/libfa2.so")
    p.add_argument("--shape", action="append", choices=list(SHAPES), help="batch and heads of the bias; repeatable; default: 1,h and b,h")
    p.add_argument("--backward", action="store_true", help="the backward alone, with the bias's gradient")
    p.add_argument("--float32", action="store_true", help="a bias of float32 (PyTorch takes the queries' dtype only)")
    p.add_argument("--head-dim", type=int, default=128)
    p.add_argument("--seqlen", type=int, action="append", help="repeatable; default: 4096")
    p.add_argument("--tokens", type=int, default=16384, help="batch * seqlen")
    p.add_argument("--heads", type=int, default=16)
    p.add_argument("--config", action="append", default=[], help="also times this configuration of the kernels with the bias; repeatable")
    p.add_argument("--no-peers", action="store_true")
    p.add_argument("--no-flex", action="store_true")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--burst-ms", type=float, default=5.0)
    p.add_argument("--out", default="")
    return p.parse_args()


def peers_of(q, k, v, bias, d_out, with_flex):
    """Returns name -> a function that returns what runs the forward, or with d_out, after one forward, the backward alone."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, flex_attention, sdpa_kernel

    def sdpa(backend):
        def run(q, k, v, bias):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype).expand(*q.shape[:3], k.shape[2]))

        return run

    one_batch, one_head = bias.shape[0] == 1, bias.shape[1] == 1
    compiled = torch.compile(flex_attention.flex_attention, dynamic=False) if with_flex else None

    def flex(q, k, v, bias):
        return compiled(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[0 if one_batch else b, 0 if one_head else h, i, j])

    def prepare(forward):
        inputs = [t.detach().requires_grad_(d_out is not None) for t in (q, k, v, bias)]
        if d_out is None:
            return lambda: forward(*inputs)
        out = forward(*inputs)
        return lambda: torch.autograd.grad(out, inputs, d_out, retain_graph=True)

    forwards = {"EFFICIENT": sdpa(SDPBackend.EFFICIENT_ATTENTION), "CUDNN": sdpa(SDPBackend.CUDNN_ATTENTION)}
    if with_flex:
        forwards["FLEX"] = flex
    return {name: lambda forward=forward: prepare(forward) for name, forward in forwards.items()}


def reason_of(error):
    """Returns the texts of the error and of the one before it, because a capture that fails raises one more at its end."""
    return "; then ".join(compare.reason_of(x) for x in (error.__context__, error) if x is not None)


class Calls:
    """A burst without a graph, for compare.time_bursts()."""

    def __init__(self, run, count):
        self.run, self.count = run, count

    def replay(self):
        for _ in range(self.count):
            self.run()


def burst_of(name, run, burst_ms, stream):
    """Returns (the column's name, the burst)."""
    import torch

    try:
        with torch.cuda.stream(torch.cuda.current_stream()):  # which a capture that fails does not restore
            return name, compare.capture(run, burst_ms, stream)
    except Exception as error:  # noqa: BLE001: whatever this version of PyTorch raises
        print(f"{name} is timed without a graph: {reason_of(error)}", flush=True)
    torch.cuda.synchronize()
    return f"{name}, no graph", (Calls(run, UNCAPTURED_CALLS), UNCAPTURED_CALLS)


def bursts_of(peers, is_backward, expected, burst_ms):
    """Returns name -> burst of the peers whose results are right, and prints why others are left out."""
    import torch

    bursts = {}
    for name, prepare in peers.items():
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        try:
            with torch.cuda.stream(stream):  # autograd runs a backward on its forward's stream, which must be the captured one
                run = prepare()
                made = run()
            torch.cuda.synchronize()
            check(name, made[:3] if is_backward else [made], expected)
            column, burst = burst_of(name, run, burst_ms, stream)
            bursts[column] = burst
        except Exception as error:  # noqa: BLE001: a backend may refuse a shape, or have no gradient of a bias
            print(f"{name} is left out: {reason_of(error)}", flush=True)
    return bursts


def reference(q, k, v, bias, d_out):
    """Returns the first batch entry's and head's output, or with d_out its gradients of Q, K and V, in float32 maths."""
    import torch

    first = [t[0, 0].detach().float().requires_grad_(d_out is not None) for t in (q, k, v)]
    rows = q.shape[2] if d_out is not None else 256
    out = (first[0][:rows] @ first[1].T / math.sqrt(q.shape[3]) + bias[0, 0, :rows].float()).softmax(-1) @ first[2]
    return [out] if d_out is None else torch.autograd.grad(out, first, d_out[0, 0].float())


def check(name, made, expected):
    for got, want in zip(made, expected):
        error = (got[0, 0, : want.shape[0]].float() - want).abs().max().item() / max(1.0, want.abs().max().item())
        if not error < 0.02:
            raise ValueError(f"{name} is wrong by {error}")


def own_run(library, q, k, v, bias, d_out):
    """Returns (function that launches, its results). `bias`: None for plain attention."""
    import torch

    variant = variants.Variants()
    if bias is not None:
        text = library.make_score_text(bias="return pair(at);", captures={"pair": bias}, per_score=["pair"])
        variant = variants.Variants(score_text=text, captures=[bias])
    o = torch.full_like(q, math.nan)
    lse = torch.empty(q.shape[:3], device="cuda") if d_out is not None else None
    forward, _ = library.plan(q, k, v, o, False, lse=lse, variant=variant)
    forward()
    if d_out is None:
        return forward, [o]
    gradients = [torch.full_like(t, math.nan) for t in (q, k, v)]
    d_captures = () if bias is None else (torch.empty(bias.shape, device="cuda"),)
    backward, _ = library.backward_plan(q, k, v, o, lse, d_out, gradients, False, variant=variant, d_captures=d_captures)
    backward()
    return backward, gradients


def measure(a, libraries, rng, shape, seqlen):
    """Returns column -> median us."""
    import torch

    generator = torch.Generator("cuda").manual_seed(0)  # a capture that failed may have broken the default one
    randn = lambda *sizes, dtype=torch.bfloat16: torch.randn(sizes, device="cuda", dtype=dtype, generator=generator)  # noqa: E731
    batch = max(1, a.tokens // seqlen)
    q, k, v, d_out = (randn(batch, seqlen, a.heads, a.head_dim).transpose(1, 2) for _ in range(4))
    d_out = d_out if a.backward else None
    bias = randn(*SHAPES[shape](batch, a.heads), seqlen, seqlen, dtype=torch.float32 if a.float32 else torch.bfloat16)
    expected = reference(q, k, v, bias, d_out)
    runs = {"plain": own_run(libraries["with bias"], q, k, v, None, d_out)[0]}
    for name, library in libraries.items():
        runs[name], made = own_run(library, q, k, v, bias, d_out)
        check(name, made, expected)
    bursts = {name: compare.capture(run, a.burst_ms) for name, run in runs.items()}
    if not a.no_peers:
        bursts.update(bursts_of(peers_of(q, k, v, bias, d_out, not a.no_flex), a.backward, expected, a.burst_ms))
    times = compare.time_bursts(bursts, a.rounds, rng)
    torch._dynamo.reset()
    return {name: 1000 * t[len(t) // 2] for name, t in times.items()}


def table_of(rows):
    """Returns the lines of a Markdown table. `rows`: ((shape, keys), column -> us)."""
    names = [name for system in SYSTEMS for name in (system, f"{system}, no graph") if any(name in us for _, us in rows)]
    lines = ["| bias | keys | " + " | ".join(names) + " | over plain | over the better of SDPA |", "|---|" + "--:|" * (len(names) + 3)]
    for (shape, seqlen), us in rows:
        cells = [f"{us[name]:.0f}" if name in us else "-" for name in names]
        sdpa = min((us[name] for name in us if name.startswith(("EFFICIENT", "CUDNN"))), default=math.nan)
        lines.append(f"| ({shape},s,s) | {seqlen} | " + " | ".join(cells) + f" | {us['plain'] / us['with bias']:.2f} | {sdpa / us['with bias']:.2f} |")
    return lines


def main():
    import torch

    a = parse_args()
    libraries = {"with bias": binding.Library(a.library), **{c: binding.Library(a.library, config=c) for c in a.config}}
    rng, rows = random.Random(1), []
    for shape in a.shape or ("1,h", "b,h"):
        for seqlen in a.seqlen or (4096,):
            rows.append(((shape, seqlen), measure(a, libraries, rng, shape, seqlen)))
            print(*table_of(rows[-1:]), *(f"{rows[-1][1][c]:.0f} {c}" for c in a.config), sep="\n", flush=True)
    what = "backward with the bias's gradient" if a.backward else "forward"
    dtype = "float32" if a.float32 else "bfloat16"
    title = f"{torch.cuda.get_device_name()}, bf16, bias {dtype}, d {a.head_dim}, {a.heads} heads, {a.tokens} tokens, {what}; us"
    if a.out:
        with open(a.out, "w") as file:
            file.write("\n".join([title, "", *table_of(rows)]) + "\n")


if __name__ == "__main__":
    main()
