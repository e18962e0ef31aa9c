"""Measures errors of fa2 and of every attention backend of PyTorch against float64, on the same inputs: rms and
largest, for more and more peaked scores. The system `float32` is the standard: scores and softmax in float32,
probabilities rounded once to 16 bits, output rounded once. Writes JSON and Markdown.

  python3 bench/errors.py --out docs/measurements/errors
  python3 bench/errors.py --q-scale 12 --config kernel=forward_sm80,tile_m=64,tile_n=32,stages=1   # one more kernel, pinned
"""
import argparse
import json
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare  # noqa: E402
import c_binding as binding  # noqa: E402
import inputs  # noqa: E402
import variants  # noqa: E402


def arguments():
    ints = lambda text: [int(x) for x in text.split(",")]  # noqa: E731
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build/libfa2.so"))
    p.add_argument("--beside", default="", help="another build of libfa2.so")
    p.add_argument("--config", action="append", default=[], help="a pinned configuration beside the chosen one; repeatable")
    p.add_argument("--head-dim", type=ints, default=[64, 128, 256])
    p.add_argument("--q-scale", type=ints, default=[1, 4, 12, 60], help="factor of N(0,1) queries; keys and values are N(0,1)")
    p.add_argument("--seqlen", type=int, default=1024)
    p.add_argument("--batch", type=int, default=2)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--commit", default="", help="recorded in the output; default: git rev-parse")
    p.add_argument("--out", default="", help="writes OUT.json and OUT.md")
    return p.parse_args()


def scores_of(pt, q, k):
    import torch

    s = q @ k.transpose(2, 3) / math.sqrt(pt["d"])
    if pt["causal"]:
        i = torch.arange(pt["seqlen"], device="cuda")
        s = s.masked_fill(i[None, :] > i[:, None], -math.inf)
    return s


def float64(pt, q, k, v):
    import torch

    return torch.softmax(scores_of(pt, q.double(), k.double()), -1) @ v.double()


def float32(pt, q, k, v):
    """Computes the products in float64, so that only scores, softmax, probabilities and output are rounded."""
    import torch

    s = scores_of(pt, q.double(), k.double()).float()
    p = torch.exp(s - s.amax(-1, keepdim=True))
    rounded = p.to(q.dtype).double()
    return ((rounded @ v.double()) / p.double().sum(-1, keepdim=True)).to(q.dtype)


def outputs(pt, q, k, v, libraries):
    """Yields (system, output). Leaves out a system that rejects the problem."""
    import torch

    yield "float32", float32(pt, q, k, v)
    for name, library in libraries.items():
        o = torch.full_like(q, math.nan)
        run, _ = library.plan(q, k, v, o, pt["causal"])
        run()
        yield name, o
    for name, run in compare.torch_systems(pt, q, k, v, False, variants.Variants()).items():
        try:
            o = run()
        except RuntimeError:
            continue
        yield name, o


def measure(pt, dtype, q_scale, seeds, libraries):
    """Returns system -> (mean square error, largest error)."""
    import torch

    squares, largest = {}, {}
    for seed in range(seeds):
        torch.manual_seed(seed)
        q, k, v = inputs.tensors(dict(pt, inputs=f"x{q_scale}"), dtype)
        expected = float64(pt, q, k, v)
        for name, o in outputs(pt, q, k, v, libraries):
            error = (o.double() - expected).abs()
            squares.setdefault(name, []).append(error.square().mean().item())
            largest[name] = max(largest.get(name, 0.0), error.max().item())
    return {n: dict(rms=math.sqrt(sum(s) / len(s)), largest=largest[n]) for n, s in squares.items()}


def table(rows, peer):
    """Returns each system's errors divided by the peer's, per dtype and factor, as geometric means over head dims and
    masks."""
    names = [n for n in rows[0]["errors"] if all(n in r["errors"] for r in rows)]
    text = [f"Over {peer}'s, geometric means over head dims and masks: rms (largest).", "",
            "| dtype, q x | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 1)]
    for dtype, q_scale in dict.fromkeys((r["dtype"], r["q_scale"]) for r in rows):
        of = [r["errors"] for r in rows if (r["dtype"], r["q_scale"]) == (dtype, q_scale)]
        over = lambda n, what: compare.geometric_mean([e[n][what] / e[peer][what] for e in of])  # noqa: E731
        text.append(f"| {dtype}, {q_scale} | " + " | ".join(f"{over(n, 'rms'):.3f} ({over(n, 'largest'):.2f})" for n in names) + " |")
    return text


def every_point(rows):
    names = list(dict.fromkeys(n for r in rows for n in r["errors"]))
    text = ["", "Every point, rms (largest).", "", "| dtype, q x, d, mask | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 1)]
    for r in rows:
        cells = [f"{r['errors'][n]['rms']:.2e} ({r['errors'][n]['largest']:.1e})" if n in r["errors"] else "-" for n in names]
        text.append(f"| {r['dtype']}, {r['q_scale']}, {r['d']}, {'causal' if r['causal'] else 'full'} | " + " | ".join(cells) + " |")
    return text


def main():
    a = arguments()
    libraries = {"fa2": binding.Library(a.library)}
    if a.beside:
        libraries["beside"] = binding.Library(a.beside)
    for config in a.config:
        libraries[config] = binding.Library(a.library, config=config)
    import torch

    rows = []
    for dtype in (torch.float16, torch.bfloat16):
        for q_scale in a.q_scale:
            for d in a.head_dim:
                for causal in (False, True):
                    pt = dict(d=d, causal=causal, seqlen=a.seqlen, batch=a.batch, heads_q=a.heads, heads_kv=a.heads)
                    errors = measure(pt, dtype, q_scale, a.seeds, libraries)
                    rows.append(dict(pt, dtype=str(dtype).split(".")[1], q_scale=q_scale, errors=errors))
    facts = compare.machine_facts(libraries["fa2"], a)
    text = ["# Errors against float64", ""] + [f"- {k}: {v}" for k, v in facts.items()]
    text += ["", f"seqlen {a.seqlen}, batch {a.batch}, {a.heads} heads, {a.seeds} seeds; q is N(0,1) times the factor.", ""]
    text += table(rows, "CUDNN") + [""] + table(rows, "float32")
    print("\n".join(text))
    if a.out:
        with open(a.out + ".json", "w") as f:
            json.dump(dict(facts=facts, rows=rows), f, indent=1)
        with open(a.out + ".md", "w") as f:
            f.write("\n".join(text + every_point(rows)) + "\n")


if __name__ == "__main__":
    main()
