"""Times a tensor of biases, one a score, beside plain attention, PyTorch's scaled_dot_product_attention with the same attn_mask, and
compiled FlexAttention: CUDA graphs, an order that is shuffled every round, medians. Refuses to time a wrong result. Writes Markdown.

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
    """Returns name -> a function that runs the forward, or with d_out the backward alone."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, flex_attention, sdpa_kernel

    inputs = [t.detach().requires_grad_(d_out is not None) for t in (q, k, v, bias)]

    def sdpa(backend):
        def run():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(*inputs[:3], attn_mask=inputs[3].to(q.dtype).expand(*q.shape[:3], k.shape[2]))

        return run

    one_batch, one_head = bias.shape[0] == 1, bias.shape[1] == 1
    score_mod = lambda s, b, h, i, j: s + inputs[3][0 if one_batch else b, 0 if one_head else h, i, j]  # noqa: E731
    forwards = {"EFFICIENT": sdpa(SDPBackend.EFFICIENT_ATTENTION), "CUDNN": sdpa(SDPBackend.CUDNN_ATTENTION)}
    if with_flex:
        compiled = torch.compile(flex_attention.flex_attention, dynamic=False)
        forwards["FLEX"] = lambda: compiled(*inputs[:3], score_mod=score_mod)
    if d_out is None:
        return forwards
    systems = {}
    for name, forward in forwards.items():
        try:
            out = forward()
            systems[name] = lambda out=out: torch.autograd.grad(out, inputs, d_out, retain_graph=True)
        except Exception as error:  # noqa: BLE001: whatever this version of PyTorch raises
            print(name, str(error)[:200].replace("\n", " "))
    return systems


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
            raise SystemExit(f"{name} is wrong by {error}")


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


def main():
    import torch

    a = parse_args()
    library, rng = binding.Library(a.library), random.Random(1)
    pinned = {config: binding.Library(a.library, config=config) for config in a.config}
    lines = ["| bias | keys | plain | with bias | EFFICIENT | CUDNN | FLEX | over plain | over the better of SDPA |", "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for shape in a.shape or ("1,h", "b,h"):
        for seqlen in a.seqlen or (4096,):
            torch.manual_seed(0)
            batch = max(1, a.tokens // seqlen)
            q, k, v, d_out = (torch.randn(batch, seqlen, a.heads, a.head_dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(4))
            d_out = d_out if a.backward else None
            bias = torch.randn(*SHAPES[shape](batch, a.heads), seqlen, seqlen, device="cuda", dtype=torch.float32 if a.float32 else torch.bfloat16)
            expected = reference(q, k, v, bias, d_out)
            systems = {}
            systems["plain"], _ = own_run(library, q, k, v, None, d_out)
            for name, of in {"with bias": library, **pinned}.items():
                systems[name], made = own_run(of, q, k, v, bias, d_out)
                check(name, made, expected)
            for name, run in ({} if a.no_peers else peers_of(q, k, v, bias, d_out, not a.no_flex)).items():
                try:
                    made = run()
                    check(name, [made] if d_out is None else made[:3], expected)
                    systems[name] = run
                except Exception as error:  # noqa: BLE001
                    print(name, str(error)[:200].replace("\n", " "))
            bursts = {s: compare.capture(run, a.burst_ms) for s, run in systems.items()}
            us = {s: 1000 * t[len(t) // 2] for s, t in compare.time_bursts(bursts, a.rounds, rng).items()}
            sdpa = min(us.get("EFFICIENT", math.inf), us.get("CUDNN", math.inf))
            cells = [f"{us[s]:.0f}" if s in us else "-" for s in ("plain", "with bias", "EFFICIENT", "CUDNN", "FLEX")]
            lines.append(f"| ({shape},s,s) | {seqlen} | " + " | ".join(cells) + f" | {us['plain'] / us['with bias']:.2f} | {sdpa / us['with bias']:.2f} |")
            print(lines[-1], *(f"{us[config]:.0f} {config}" for config in a.config), sep="\n  ", flush=True)
            torch._dynamo.reset()
    what = "backward with the bias's gradient" if a.backward else "forward"
    dtype = "float32" if a.float32 else "bfloat16"
    text = "\n".join([f"{torch.cuda.get_device_name()}, bf16, bias {dtype}, d {a.head_dim}, {a.heads} heads, {a.tokens} tokens, {what}; us", "", *lines])
    if a.out:
        with open(a.out, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
