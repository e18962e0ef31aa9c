#!/usr/bin/env python3
"""Times attention on shapes drawn at random, by fa2 and by every peer that takes the shape: PyTorch's cuDNN and FLASH, and
FlashAttention-3 if it is installed. One process, CUDA graphs whose launches read cold memory, an order that is shuffled every
round, medians. Points below their limit are timed twice more, and the median of the three counts. Refuses to time a wrong
result. Writes JSON, Markdown and a plot.

  python3 bench/grid.py --out docs/measurements/grid                  # 150 forward and 60 backward points, seed: the commit
  python3 bench/grid.py --seed 1 --forward 20 --backward 0            # 20 points, on stdout
  python3 bench/grid.py --seed 1 --only 3,17                          # two of them again
  python3 bench/grid.py --dry-run                                     # lists the shapes; needs no GPU
"""
import argparse
import dataclasses
import json
import math
import random
import subprocess
import sys
import time
import types

import compare
import decode
from grid_shapes import MOST_BYTES, drawn_shapes

LIMIT = 0.93  # a slower point is timed again
REGIMES = ("bandwidth", "other", "backward")
COLOURS = {"bandwidth": "#1864ab", "other": "#d9480f", "backward": "#2b8a3e"}


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", help="of the shapes; default: the hash of the commit")
    p.add_argument("--forward", type=int, default=150, help="points")
    p.add_argument("--backward", type=int, default=60, help="points")
    p.add_argument("--only", default="", help="numbers of the points to time, with commas between")
    p.add_argument("--dry-run", action="store_true", help="list the shapes and time nothing")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--burst-ms", type=float, default=4)
    p.add_argument("--seconds", type=float, default=0, help="start no point after so many; 0: no limit")
    p.add_argument("--commit", default="")
    p.add_argument("--json", action="store_true", help="print one JSON document on stdout and nothing else there")
    p.add_argument("--out", help="writes OUT.json, OUT.md and OUT.svg")
    a = p.parse_args()
    a.seed = a.seed or commit_of(a)
    return a


def commit_of(a):
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return a.commit or run.stdout.strip() or "0"


class Point:
    """The tensors of a shape, in so many copies that none of them is in L2."""

    def __init__(self, shape):
        import torch

        self.shape = s = shape
        copies = 1 if s.backward else max(1, min(8, decode.COLD_BYTES // max(1, s.bytes()) + 1, MOST_BYTES // max(1, s.memory())))
        make = lambda rows, heads: torch.randn(s.batch, rows, heads, s.d, device="cuda", dtype=torch.bfloat16)  # noqa: E731
        self.copies = [(make(s.queries, s.heads_q), make(s.keys, s.heads_kv), make(s.keys, s.heads_kv)) for _ in range(copies)]
        self.used = None
        if s.lengths != "full":
            self.used = torch.tensor(s.key_lengths(), dtype=torch.int32, device="cuda")
        self.table, self.pages = None, [copy[1:] for copy in self.copies]
        if s.page_size:
            columns = -(-s.keys // s.page_size)
            self.table = torch.randperm(s.batch * columns, device="cuda", dtype=torch.int32).view(s.batch, columns)
            self.pages = [tuple(self.paged(x) for x in copy[1:]) for copy in self.copies]

    def paged(self, rows):
        """Returns the same rows in pages, as the table orders them."""
        import torch

        s = self.shape
        room = self.table.shape[1] * s.page_size - s.keys
        pages = torch.nn.functional.pad(rows, (0, 0, 0, 0, 0, room)).view(-1, s.page_size, s.heads_kv, s.d)
        moved = torch.empty_like(pages)
        moved[self.table.view(-1).long()] = pages
        return moved

    def error(self, out):
        """Returns max |out - reference| over a few rows of the first copy, in float32 maths."""
        import torch

        s, worst, rng = self.shape, 0.0, random.Random(1)
        q, k, v = self.copies[0]
        for _ in range(4):
            b, h, i = rng.randrange(s.batch), rng.randrange(s.heads_q), rng.randrange(s.queries)
            n = s.key_lengths()[b]
            last = n - s.queries + i if s.causal else n - 1
            first = max(0, last - s.window) if s.window >= 0 else 0
            keys, values = (x[b, first:last + 1, h // (s.heads_q // s.heads_kv)].float() for x in (k, v))
            p = torch.softmax(keys @ q[b, i, h].float() / math.sqrt(s.d), 0)
            worst = max(worst, (p @ values - out[b, i, h].float()).abs().max().item())
        return worst


def forward_systems(point):
    """Returns name -> one function per copy, which returns the output as (batch, queries, heads, d)."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    import fa2

    s, systems = point.shape, {}
    tables = {} if point.used is None else dict(seqused_k=point.used)
    tables |= {} if point.table is None else dict(page_table=point.table)
    window = dict(window_size=(s.window, 0)) if s.window >= 0 else {}
    systems["fa2"] = [lambda q=q, kv=kv: fa2.attention(q, *kv, causal=s.causal, **window, **tables)
                      for (q, _, _), kv in zip(point.copies, point.pages)]
    fa3 = compare.flash_attention_3()
    if fa3 is not None:
        cache = dict(cache_seqlens=point.used, page_table=point.table, causal=s.causal, window_size=(s.window, 0 if s.window >= 0 else -1))
        systems["FA3"] = [lambda q=q, kv=kv: fa3.flash_attn_with_kvcache(q, *kv, **cache) for (q, _, _), kv in zip(point.copies, point.pages)]
    # PyTorch's causal mask is aligned to the first query. A single query sees every key.
    causal = s.causal and s.queries > 1
    if point.used is None and s.window < 0 and not (causal and s.queries != s.keys):
        for name in ("CUDNN", "FLASH"):
            backend = getattr(SDPBackend, name + "_ATTENTION")

            def run(q, k, v, backend=backend):
                with sdpa_kernel(backend), torch.no_grad():
                    out = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=causal,
                                                         enable_gqa=s.heads_q != s.heads_kv)
                return out.transpose(1, 2)

            systems[name] = [lambda copy=copy, run=run: run(*copy) for copy in point.copies]
    return systems


def backward_systems(point):
    """Returns name -> one function, which computes all gradients of a forward that has run."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    import fa2

    s = point.shape
    q, k, v = (x.requires_grad_() for x in point.copies[0])
    window = dict(window_size=(s.window, 0)) if s.window >= 0 else {}

    def sdpa(backend):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=s.causal,
                                                  enable_gqa=s.heads_q != s.heads_kv).transpose(1, 2)

    forwards = {"fa2": lambda: fa2.attention(q, k, v, causal=s.causal, **window)}
    fa3 = compare.flash_attention_3()
    if fa3 is not None:
        both = (s.window, 0 if s.window >= 0 else -1)
        forwards["FA3"] = lambda: compare.output_of(fa3.flash_attn_func(q, k, v, causal=s.causal, window_size=both))
    if s.window < 0:
        forwards |= {"CUDNN": lambda: sdpa(SDPBackend.CUDNN_ATTENTION), "FLASH": lambda: sdpa(SDPBackend.FLASH_ATTENTION)}
    d_out, systems = torch.randn_like(q), {}
    # Autograd launches a backward on the stream of its forward, which must be the one that graphs are captured on.
    torch.cuda.graph.default_capture_stream = torch.cuda.graph.default_capture_stream or torch.cuda.Stream()
    for name, forward in forwards.items():
        try:
            torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.graph.default_capture_stream):
                out = forward()
            torch.cuda.synchronize()
        except Exception as error:  # a peer refuses a shape in its own way
            if name == "fa2":
                raise
            print(f"{name}: {compare.reason_of(error)}", file=sys.stderr)
            continue
        systems[name] = [lambda out=out: torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True)]
    return systems


def timed(shape, a, rng):
    """Returns name -> microseconds, and name -> reason for every peer that refused."""
    import torch

    point, graphs, dropped = Point(shape), {}, {}
    systems = backward_systems(point) if shape.backward else forward_systems(point)
    for name, launches in systems.items():
        try:
            out = launches[0]()
            if not shape.backward:
                out = out[0] if isinstance(out, tuple) else out
                error = point.error(out)
                if not error <= 1.6e-2:
                    raise RuntimeError(f"wrong: error {error}")
            graphs[name] = decode.capture(launches, a.burst_ms)
        except Exception as error:
            if name == "fa2":
                raise SystemExit(f"fa2, {shape.text()}: {compare.reason_of(error)}") from error
            dropped[name] = compare.reason_of(error)
            torch.cuda.synchronize()
    times = compare.time_bursts(graphs, a.rounds, rng)
    return {name: t[len(t) // 2] * 1e3 for name, t in times.items()}, dropped


def row_of(number, shape, us, dropped, bandwidth):
    peers = {name: t for name, t in us.items() if name != "fa2"}
    best = min(peers, key=peers.get) if peers else ""
    floor = shape.bytes() / bandwidth * 1e6
    regime = "backward" if shape.backward else "bandwidth" if best and floor > 0.8 * peers[best] else "other"
    return dict(number=number, shape=dataclasses.asdict(shape), text=shape.text(), us=us, dropped=dropped, best=best, floor_us=floor,
                regime=regime, speed=peers[best] / us["fa2"] if best else None)


def measured_row(number, shape, a, rng, bandwidth):
    """Returns the row of a point; of three, with the median speed, if the first is below the limit."""
    import torch

    rows = []
    while not rows or (len(rows) < 3 and rows[0]["speed"] is not None and rows[0]["speed"] < LIMIT):
        rows.append(row_of(number, shape, *timed(shape, a, rng), bandwidth))
        torch.cuda.empty_cache()
    return sorted(rows, key=lambda row: row["speed"] or 0)[len(rows) // 2]


def copy_bandwidth():
    """Returns bytes per second of a large copy, read and written."""
    import torch

    x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
    y.copy_(x)
    start.record()
    for _ in range(10):
        y.copy_(x)
    stop.record()
    stop.synchronize()
    return 20 * x.numel() / (start.elapsed_time(stop) * 1e-3)


def line_of(row):
    times = "  ".join(f"{name} {t:.1f}" for name, t in row["us"].items())
    speed = "no peer" if row["speed"] is None else f"{row['speed']:.3f}"
    return f"{row['number']:3} {speed:>7} {row['regime']:9} {row['text']}: {times} us, floor {row['floor_us']:.1f}"


def summary(rows):
    """Returns lines with the geometric mean and the worst speed of each regime, then every point below 1."""
    lines = []
    for regime in REGIMES:
        speeds = [row["speed"] for row in rows if row["regime"] == regime and row["speed"] is not None]
        if speeds:
            lines.append(f"{regime}: geometric mean {compare.geometric_mean(speeds):.3f}, worst {min(speeds):.3f}, best "
                         f"{max(speeds):.3f}, {sum(x < 1 for x in speeds)} of {len(speeds)} below 1")
    below = sorted((row for row in rows if row["speed"] is not None and row["speed"] < 1), key=lambda row: row["speed"])
    return lines + [line_of(row) for row in below]


def markdown(rows, facts):
    text = ["# Shapes drawn at random, over the best peer", ""] + [f"- {k}: {v}" for k, v in facts.items()] + [""]
    text += [f"- {line}" for line in summary(rows)] + ["", "| | speed | regime | shape | fa2 us | best peer us | peer | floor us |"]
    text.append("|--:|--:|---|---|--:|--:|---|--:|")
    for row in rows:
        us, best = row["us"], row["best"]
        text.append(f"| {row['number']} | " + (f"{row['speed']:.3f}" if best else "-") + f" | {row['regime']} | {row['text']} | "
                    f"{us['fa2']:.1f} | " + (f"{us[best]:.1f}" if best else "-") + f" | {best} | {row['floor_us']:.1f} |")
    return "\n".join(text) + "\n"


def svg(rows, facts):
    """Returns a plot of the speed over the best peer's time; both axes are logarithmic."""
    width, height, left, top, inner_w, inner_h = 900, 480, 70, 70, 790, 350
    points = [(row["us"][row["best"]], row["speed"], row["regime"], row["text"]) for row in rows if row["speed"]]
    low, high = math.log10(min(p[0] for p in points)), math.log10(max(p[0] for p in points))
    span = max(0.1, max(abs(math.log2(p[1])) for p in points))
    x = lambda us: left + inner_w * (math.log10(us) - low) / max(1e-9, high - low)  # noqa: E731
    y = lambda speed: top + inner_h * (0.5 - math.log2(speed) / (2 * span))  # noqa: E731
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
             'font-family="system-ui, sans-serif" font-size="12" fill="#495057">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
             f'<text x="{left}" y="30" font-size="17" font-weight="600">Speed over the best peer, {facts.get("GPU", "")}</text>']
    for at, regime in enumerate(REGIMES):
        parts.append(f'<circle cx="{left + 6 + 150 * at}" cy="50" r="5" fill="{COLOURS[regime]}"/>'
                     f'<text x="{left + 18 + 150 * at}" y="54">{regime}</text>')
    for speed in (0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 4):
        if abs(math.log2(speed)) <= span:
            parts.append(f'<line x1="{left}" x2="{left + inner_w}" y1="{y(speed):.1f}" y2="{y(speed):.1f}" stroke="'
                         f'{"#495057" if speed == 1 else "#e9ecef"}"/><text x="{left - 8}" y="{y(speed) + 4:.1f}" text-anchor="end">{speed}</text>')
    for power in range(math.ceil(low), math.floor(high) + 1):
        parts.append(f'<text x="{x(10 ** power):.1f}" y="{top + inner_h + 20}" text-anchor="middle">{10 ** power:g}</text>')
    for us, speed, regime, text in points:
        parts.append(f'<circle cx="{x(us):.1f}" cy="{y(speed):.1f}" r="4" fill="{COLOURS[regime]}" fill-opacity="0.7"><title>{text}: '
                     f'{speed:.3f}</title></circle>')
    parts.append(f'<text x="{left + inner_w / 2}" y="{height - 14}" text-anchor="middle">best peer, us</text></svg>')
    return "\n".join(parts) + "\n"


def facts_of(a, bandwidth):
    import fa2

    facts = compare.machine_facts(types.SimpleNamespace(version=fa2.__version__), a)
    return facts | {"FlashAttention-3": "yes" if flash_attention_3() else "not installed", "seed": a.seed,
                    "copy": f"{bandwidth / 1e12:.2f} TB/s"}


def main():
    a = parse_args()
    shapes = list(enumerate(drawn_shapes(a.seed, a.forward, a.backward)))
    if a.only:
        wanted = {int(number) for number in a.only.split(",")}
        shapes = [(number, shape) for number, shape in shapes if number in wanted]
    if a.dry_run:
        for number, shape in shapes:
            print(f"{number:3} {shape.text()}: {shape.flops() / 1e12:.3g} TFLOP, {shape.bytes() / 1e9:.3g} GB")
        return
    bandwidth, rng, rows, begin = copy_bandwidth(), random.Random(0), [], time.monotonic()
    rng.shuffle(shapes)  # records of one shape must not help the next of its kind
    for number, shape in shapes:
        if a.seconds and time.monotonic() - begin > a.seconds:
            print(f"{len(shapes) - len(rows)} points were not started after {a.seconds:.0f} s", file=sys.stderr)
            break
        rows.append(measured_row(number, shape, a, rng, bandwidth))
        print(f"{len(rows)}/{len(shapes)} {line_of(rows[-1])}", file=sys.stderr if a.json else sys.stdout, flush=True)
    rows.sort(key=lambda row: row["number"])
    facts = facts_of(a, bandwidth)
    if a.out:
        compare.write(a.out, facts, rows, markdown(rows, facts))
        with open(a.out + ".svg", "w") as f:
            f.write(svg(rows, facts))
    print(json.dumps(dict(facts=facts, rows=rows), indent=1) if a.json else "\n".join(summary(rows)))


if __name__ == "__main__":
    main()
