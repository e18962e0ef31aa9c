#!/usr/bin/env python3
"""Times attention of one or a few queries over long caches, by fa2 and by PyTorch's cuDNN and FLASH; latents by FlashMLA,
if it is installed: one process, CUDA graphs whose launches read more memory than L2 holds, an order that is shuffled every round, medians. "floor" is the
time in which a kernel that does nothing else reads K and V once. Refuses to time a wrong result. Writes JSON and
Markdown.

  python3 bench/decode.py --out docs/measurements/decode                  # the standard cases
  python3 bench/decode.py --case 1:32/8:8192 --case 16:32/8:8192:4        # batch : query heads / key heads : keys [: queries]
  python3 bench/decode.py --case lognormal:64:32/8:4096                   # lengths with a mean of 4096, known only to the device
  python3 bench/decode.py --case 64:32/8:4096:1:used:page16               # pages of 16 keys, in random order
  python3 bench/decode.py --head-dim 576 --latent 512 --case 128:16/1:4096:1:used:page64   # V is in the rows of K
"""
import argparse
import math
import random

import c_binding
import compare
import varlen

CASES = ["1:32/8:8192", "1:32/8:32768", "1:32/8:131072", "16:32/8:8192", "64:32/8:4096", "32:64/8:8192", "1:64/8:2048",
         "16:32/8:8192:4", "64:32/8:4096:1:used", "lognormal:64:32/8:4096", "64:32/8:4096:1:used:page256", "64:32/8:4096:1:used:page64",
         "64:32/8:4096:1:used:page16", "64:32/8:4096:1:used:page1"]
COLD_BYTES = 512 << 20  # ten times L2


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default="build/libfa2.so")
    p.add_argument("--case", action="append", help="BATCH:HEADS_Q/HEADS_KV:KEYS[:QUERIES[:used[:pageN]]] or lognormal:BATCH:HEADS:MEAN; "
                   "used: lengths on the device, all of them KEYS; pageN: keys and values in pages of N; repeatable")
    p.add_argument("--head-dim", type=int, default=128)
    p.add_argument("--latent", type=int, default=0, metavar="N", help="V is the first N columns of K")
    p.add_argument("--kv-type", choices=["same", "e4m3"], default="same", help="of keys and values")
    p.add_argument("--dtype", choices=["f16", "bf16"], default="bf16")
    p.add_argument("--config", action="append", default=[], help="also with this configuration pinned; repeatable")
    p.add_argument("--tune", choices=["off", "stored", "now"], default="stored")
    p.add_argument("--append", action="store_true", help="where lengths are on the device, also with append() of a token before each launch")
    return parse_with_timing(p, CASES, rounds=9)


def parse_with_timing(p, cases, rounds):
    """Adds the options of a measurement, of `rounds` rounds unless given, and parses all. Without --case, a.case is `cases`."""
    p.add_argument("--rounds", type=int, default=rounds)
    p.add_argument("--burst-ms", type=float, default=4)
    p.add_argument("--commit", default="")
    p.add_argument("--out", help="writes OUT.json and OUT.md")
    a = p.parse_args()
    a.case = a.case or cases
    return a


class Case:
    """The tensors of a case, in enough copies that none of them is in L2."""

    def __init__(self, text, d, latent, dtype, kv_type):
        import torch

        fields = text.split(":")
        ragged = fields[0] == "lognormal"
        batch, heads, keys, *more = fields[1:] if ragged else fields
        self.batch, (self.heads_q, self.heads_kv) = int(batch), (int(h) for h in heads.split("/"))
        self.queries = int(more[0]) if more else 1
        mix = f"lognormal:{batch}:{self.batch * int(keys)}:1" if ragged else f"{batch}x{keys}"
        self.lengths = varlen.lengths_of(mix)
        self.longest, self.d, self.d_v = max(self.lengths), d, latent or d
        self.used = torch.tensor(self.lengths, device="cuda", dtype=torch.int32) if ragged or "used" in more else None
        self.bytes = sum(self.lengths) * self.heads_kv * (d if latent else 2 * d) * kv_type.itemsize
        make = lambda rows, h, type=dtype: torch.randn(self.batch, rows, h, d, device="cuda", dtype=dtype).to(type).transpose(1, 2)  # noqa: E731
        values = lambda k: k[..., :latent] if latent else make(self.longest, self.heads_kv, kv_type)  # noqa: E731
        self.page_size = next((int(f[4:]) for f in more if f.startswith("page")), 0)
        copies = max(2, math.ceil(COLD_BYTES / self.bytes))
        self.copies = []
        for _ in range(copies):
            k = make(self.longest, self.heads_kv, kv_type)
            self.copies.append((make(self.queries, self.heads_q), k, values(k)))
        self.pages = [self.paged(*copy[1:], latent) for copy in self.copies] if self.page_size else [None] * copies

    def paged(self, k, v, latent):
        """Returns (pages of K, pages of V, table) with the same keys and values, in random order."""
        import torch

        columns = -(-self.longest // self.page_size)
        table = torch.randperm(self.batch * columns, device="cuda", dtype=torch.int32).view(self.batch, columns)
        moved = []
        for t in (k,) if latent else (k, v):
            rows = torch.nn.functional.pad(t.transpose(1, 2), (0, 0, 0, 0, 0, columns * self.page_size - self.longest))
            pages = torch.empty_like(rows).view(-1, self.page_size, *rows.shape[2:])
            pages.view(torch.uint8)[table.view(-1).long()] = rows.reshape(pages.shape).view(torch.uint8)
            moved.append(pages.transpose(1, 2))
        return moved[0], moved[0][..., :latent] if latent else moved[1], table

    def is_equal(self):
        return self.used is None

    def error(self, o):
        """Returns max |o - reference| over the first and the last sequence of the first copy, in float32 maths."""
        worst = 0.0
        q, k, v = self.copies[0]
        for b in {0, self.batch - 1}:
            n, group = self.lengths[b], self.heads_q // self.heads_kv
            keys, values = (t[b, :, :n].float().repeat_interleave(group, 0) for t in (k, v))
            p = (q[b].float() @ keys.transpose(1, 2) / math.sqrt(self.d)).softmax(-1)
            worst = max(worst, (p @ values - o[b].float()).abs().max().item())
        return worst


def in_turn(launches):
    """Returns a function that runs the next launch each time it is called."""
    place = [0]

    def run():
        launches[place[0] % len(launches)]()
        place[0] += 1

    return run


def of_fa2(library, case):
    """Returns (one launch per copy, the first copy's output, explanation)."""
    import torch

    launches = []
    for (q, k, v), pages in zip(case.copies, case.pages):
        o = q.new_full((*q.shape[:3], case.d_v), math.nan)
        run, explained = library.plan(q, k, v, o, False, used=case.used, pages=pages)
        launches.append(run)
        first = o if len(launches) == 1 else first
    launches[0]()
    torch.cuda.synchronize()
    return launches, first, explained


def of_appending(library, case, launches):
    """Returns launches that first append the last key and value of every sequence, and rotate them and the queries."""
    import torch

    d, before = case.d, case.used - 1
    angles = torch.arange(case.longest, device="cuda")[:, None] / 10000 ** (torch.arange(0, d, 2, device="cuda") / d)
    new = [torch.randn(case.batch, 1, case.heads_kv, d, device="cuda", dtype=case.copies[0][0].dtype).transpose(1, 2) for _ in "kv"]
    both = []
    for (q, k, v), pages, attend in zip(case.copies, case.pages, launches):
        k, v, table = pages or (k, v, None)
        append = library.append(q, *new, k, v, before, angles.cos(), angles.sin(), table)
        both.append(lambda append=append, attend=attend: (append(), attend()))
    return both


def of_torch(backend, case):
    import torch.nn.functional as F
    from torch.nn.attention import sdpa_kernel

    def launch(q, k, v):
        def run():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, enable_gqa=case.heads_q != case.heads_kv)

        return run

    return [launch(*copy) for copy in case.copies]


def of_flash_mla(case):
    import flash_mla

    def launch(q, pages):
        q, cache, table = q.transpose(1, 2).contiguous(), pages[0].transpose(1, 2), pages[2]
        metadata, _ = flash_mla.get_mla_metadata()

        def run():
            out, _ = flash_mla.flash_mla_with_kvcache(q, cache, table, case.used, case.d_v, metadata, causal=False, use_legacy=True)
            return out.transpose(1, 2)

        return run

    return [launch(q, pages) for (q, _, _), pages in zip(case.copies, case.pages)]


def floor_of(case):
    """Returns one Triton kernel per copy that reads K and V."""
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def read(k, v, out, n, BLOCK: tl.constexpr, BOTH: tl.constexpr):
        total = tl.zeros([BLOCK], tl.float32)
        for first in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
            at = first + tl.arange(0, BLOCK)
            total += tl.load(k + at, mask=at < n, other=0.0)
            if BOTH:
                total += tl.load(v + at, mask=at < n, other=0.0)
        tl.store(out + tl.program_id(0), tl.sum(total, 0))

    out = torch.empty(4096, device="cuda")
    both = case.d_v == case.d
    n = case.bytes // (8 if both else 4)  # float32 words in each of K and V
    flat = lambda t: t.transpose(1, 2).reshape(-1).view(torch.float32)  # noqa: E731
    return [lambda k=flat(k), v=flat(v if both else k): read[(132 * 4,)](k, v, out, n, BLOCK=4096, BOTH=both, num_warps=8)
            for _, k, v in case.copies]


def capture(launches, burst_ms):
    """Returns a CUDA graph that goes over all copies several times, and the number of its launches."""
    import torch

    graph, _ = compare.capture(in_turn(launches), 0)  # warms up
    start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
    start.record()
    graph.replay()
    stop.record()
    stop.synchronize()
    times = max(1, min(400 // len(launches) + 1, round(burst_ms / max(start.elapsed_time(stop) / 2, 1e-3) / len(launches))))
    run, graph = in_turn(launches), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times * len(launches)):
            run()
    return graph, times * len(launches)


def measure_case(libraries, text, a, rng):
    import torch
    from torch.nn.attention import SDPBackend

    dtype = torch.bfloat16 if a.dtype == "bf16" else torch.float16
    case = Case(text, a.head_dim, a.latent, dtype, torch.float8_e4m3fn if a.kv_type == "e4m3" else dtype)
    systems, errors, dropped, config = {}, {}, {}, ""
    for name, library in libraries.items():
        try:
            systems[name], o, explained = of_fa2(library, case)
        except RuntimeError as error:  # a pinned configuration may not be able to compute this
            dropped[name] = compare.reason_of(error)
            continue
        errors[name] = case.error(o)
        if not errors[name] <= (1.6e-2 if a.dtype == "bf16" else 2e-3):
            raise SystemExit(f"{name} is wrong at {text}: error {errors[name]}; nothing is timed")
        if name == "fa2":
            if a.append and not case.is_equal():
                systems["append, fa2"] = of_appending(library, case, systems[name])
            config = compare.config_text(explained["kernels"][0])
    if a.latent and a.kv_type == "same" and case.page_size == 64:
        systems["FlashMLA"] = of_flash_mla(case)
    elif case.is_equal() and a.kv_type == "same":
        systems["CUDNN"] = of_torch(SDPBackend.CUDNN_ATTENTION, case)
        systems["FLASH"] = of_torch(SDPBackend.FLASH_ATTENTION, case)
    if min(case.lengths) == case.longest:
        systems["floor"] = floor_of(case)
    graphs = {}
    for name, launches in systems.items():
        try:
            graphs[name] = capture(launches, a.burst_ms)
            if name in ("CUDNN", "FLASH", "FlashMLA"):
                errors[name] = case.error(launches[0]())
        except Exception as error:  # a backend may refuse a shape in its own way
            dropped[name] = compare.reason_of(error)
            torch.cuda.synchronize()
    us = {name: t[len(t) // 2] * 1e3 for name, t in compare.time_bursts(graphs, a.rounds, rng).items()}
    return dict(case=text, us=us, errors=errors, dropped=dropped, config=config, tb_per_s=case.bytes / us["fa2"] / 1e6)


def line_of(row):
    us = row["us"]
    ratio = f"  fa2 / CUDNN {us['fa2'] / us['CUDNN']:.3f}" if "CUDNN" in us else ""
    return f"{row['case']:24} " + "  ".join(f"{n} {t:.1f}" for n, t in us.items()) + f"  {row['tb_per_s']:.2f} TB/s{ratio}"


def markdown(rows, facts):
    names = list(dict.fromkeys(name for row in rows for name in row["us"]))
    text = ["# Decode, microseconds", ""] + [f"- {k}: {v}" for k, v in facts.items()] + [""]
    text += ["batch : query heads / key heads : keys [: queries]; medians of cold launches in a CUDA graph.", ""]
    text += ["| case | " + " | ".join(names) + " | fa2/CUDNN | config |", "|" + "---|" * (len(names) + 3)]
    for row in rows:
        us = row["us"]
        ratio = f"{us['fa2'] / us['CUDNN']:.3f}" if "CUDNN" in us else "-"
        text.append(f"| {row['case']} | " + " | ".join(f"{us[n]:.1f}" if n in us else "-" for n in names)
                    + f" | {ratio} | {row['config']} |")
    return "\n".join(text) + "\n"


def main():
    a = parse_args()
    make = lambda **more: c_binding.Library(a.library, a.tune, **more)  # noqa: E731
    libraries = {"fa2": make()}
    libraries.update({f"fa2 {config}": make(config=config) for config in a.config})
    rows, rng = [], random.Random(0)
    for text in a.case:
        rows.append(measure_case(libraries, text, a, rng))
        print(line_of(rows[-1]), flush=True)
        if rows[-1]["dropped"]:
            print("   ", rows[-1]["dropped"])
    if a.out:
        facts = compare.machine_facts(libraries["fa2"], a)
        compare.write(a.out, facts, rows, markdown(rows, facts))


if __name__ == "__main__":
    main()
