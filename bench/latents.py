#!/usr/bin/env python3
"""Times latent attention (MLA, 576 / 512) through FlashMLA's functions: those of fa2 and, where it is installed and accepts the case,
FlashMLA's own. One process, CUDA graphs over caches that L2 does not hold, an order that is shuffled every round, medians.
Refuses to time a wrong result of fa2. Writes JSON and Markdown.

  python3 bench/latents.py --case rows:128:16:4096           # rows of 656 bytes in pages of 64: sequences : heads : keys
  python3 bench/latents.py --case listed:64:128:32768:2048   # a query per sequence, lists of 2048 of its rows
  python3 bench/latents.py --case prompt:2048:128:8192:2048  # queries : heads : bf16 keys : keys in each query's list
  python3 bench/latents.py --case bytes:128:16:4096          # float8_e4m3fn with one factor, in pages of 64
"""
import argparse
import importlib.util
import random
import types

import compare
import decode

CASES = ["rows:128:16:4096", "rows:128:128:4096", "bytes:128:16:4096", "listed:64:16:32768:2048", "listed:64:128:32768:2048",
         "prompt:2048:128:8192:2048"]
LATENT, DIM, PAGE = 512, 576, 64


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--case", action="append", help="rows|bytes|listed|prompt:NUMBERS, as above; repeatable")
    return decode.parse_with_timing(p, CASES, rounds=7)


def quantized(keys):
    """Returns (rows of 656 bytes of keys (..., 576), what they stand for, float32)."""
    import torch

    groups = keys[..., :LATENT].float().unflatten(-1, (4, 128))
    factors = groups.abs().amax(-1) / 448
    codes = (groups / factors[..., None]).to(torch.float8_e4m3fn)
    parts = [codes.flatten(-2), factors, keys[..., LATENT:].bfloat16().contiguous()]
    rows = torch.cat([part.contiguous().view(torch.uint8) for part in parts], -1)
    meant = torch.cat([(codes.float() * factors[..., None]).flatten(-2), parts[2].float()], -1)
    return rows.view(torch.float8_e4m3fn), meant


class LegacyFlashMla:
    """FlashMLA's functions of the package sgl-flash-mla, whose kernels for Hopper are behind use_legacy. Its dense kernel for 8 bits
    takes queries of 8 bits too. Its kernel for rows of 656 bytes takes lists: whole sequences are lists of all of their rows."""

    def __init__(self, library):
        self.library = library

    def get_mla_metadata(self):
        schedule, _ = self.library.get_mla_metadata()
        return types.SimpleNamespace(schedule=schedule, prepared=None), None  # prepared: what the first call made for later ones

    def flash_mla_sparse_fwd(self, *args):
        return self.library.flash_mla_sparse_fwd(*args, use_legacy=True)

    def flash_mla_with_kvcache(self, q, pages, table, lengths, dim_v, metadata, is_fp8_kvcache, indices=None):
        import torch

        call, options = self.library.flash_mla_with_kvcache, {}
        schedule = metadata.schedule
        if indices is None and pages.shape[-1] == 656:
            if metadata.prepared is None:
                rows = table[..., None] * PAGE + torch.arange(PAGE, device="cuda", dtype=torch.int32)
                metadata.prepared = rows.flatten(1)[:, None]
            table, lengths, indices = None, None, metadata.prepared
        elif indices is None and is_fp8_kvcache:
            if metadata.prepared is None:
                made = self.library.get_mla_decoding_metadata(lengths, q.shape[1] * q.shape[2], 1, is_fp8_kvcache=True, use_legacy=True)
                schedule.tile_scheduler_metadata, schedule.num_splits = made
                metadata.prepared = q.to(torch.float8_e4m3fn), torch.ones(1, device="cuda")
            q, one = metadata.prepared
            options = dict(descale_q=one, descale_k=one)
        return call(q, pages, table, lengths, dim_v, schedule, is_fp8_kvcache=is_fp8_kvcache, indices=indices, use_legacy=True, **options)


class Case:
    """The tensors of a case, in enough copies that none of them is in L2."""

    def __init__(self, text):
        import torch

        self.kind, *numbers = text.split(":")
        self.queries, self.heads, self.keys, *listed = map(int, numbers)
        self.has_lists = self.kind in ("listed", "prompt")
        if self.kind not in ("rows", "bytes", "listed", "prompt") or len(listed) != self.has_lists:
            raise SystemExit(f"--case {text} is none of rows|bytes:SEQUENCES:HEADS:KEYS, listed|prompt:QUERIES:HEADS:KEYS:LISTED")
        total = self.keys * (1 if self.kind == "prompt" else self.queries)  # a prompt's queries share their keys
        seen = listed[0] if listed else self.keys
        row_bytes = {"rows": 656, "listed": 656, "bytes": DIM, "prompt": 2 * DIM}[self.kind]
        self.bytes, self.flops = self.queries * seen * row_bytes, 2 * self.queries * self.heads * seen * (DIM + LATENT)
        self.copies = []
        for _ in range(max(2, -(-decode.COLD_BYTES // (total * row_bytes)))):
            q = torch.randn(self.queries, 1, self.heads, DIM, device="cuda", dtype=torch.bfloat16)
            cache = torch.randn(total, 1, DIM, device="cuda", dtype=torch.bfloat16)
            if self.kind in ("rows", "listed"):
                cache, meant = quantized(cache)
            elif self.kind == "bytes":
                cache = cache.to(torch.float8_e4m3fn)
            if not self.copies:
                self.meant = (meant if self.kind in ("rows", "listed") else cache.float())[:, 0]
            if self.has_lists:
                rows = torch.rand(self.queries, self.keys, device="cuda").argsort(1)[:, :seen]
                rows += torch.arange(self.queries, device="cuda")[:, None] * (total - self.keys) // max(1, self.queries - 1)
            else:
                rows = torch.randperm(total // PAGE, device="cuda").view(self.queries, -1)
            self.copies.append((q, cache.view(-1, PAGE, 1, cache.shape[-1]), rows.int().contiguous()))
        self.lengths = torch.full((self.queries,), seen, device="cuda", dtype=torch.int32)

    def launches(self, library):
        """Returns one launch of the library (a module with FlashMLA's functions) per copy. Each returns (queries, heads, 512)."""
        import torch

        def launch(q, pages, rows):
            metadata, _ = library.get_mla_metadata()
            if self.kind == "prompt":
                kv, indices = pages.view(-1, 1, DIM), rows[:, None]
                return lambda: library.flash_mla_sparse_fwd(q[:, 0], kv, indices, DIM**-0.5)[0]
            if self.kind == "listed":
                return lambda: library.flash_mla_with_kvcache(q, pages, None, None, LATENT, metadata, is_fp8_kvcache=True,
                                                              indices=rows[:, None])[0][:, 0]
            return lambda: library.flash_mla_with_kvcache(q, pages, rows, self.lengths, LATENT, metadata,
                                                          is_fp8_kvcache=pages.dtype == torch.float8_e4m3fn)[0][:, 0]

        launches = [launch(*copy) for copy in self.copies]
        for first in launches:  # makes schedules, which launches of a graph only read
            first()
        return launches

    def error(self, o):
        """Returns (the largest |o - reference|, the root mean square relative to that of O) of the first and the last query."""
        import torch

        q, _, rows = self.copies[0]
        found, wanted = [], []
        for n in {0, self.queries - 1}:
            at = rows[n].long()
            keys = self.meant[at if self.has_lists else (at[:, None] * PAGE + torch.arange(PAGE, device="cuda")).flatten()].double()
            p = (q[n, 0].double() @ keys.T * DIM**-0.5).softmax(-1)
            wanted.append(p @ keys[:, :LATENT])
            found.append(o[n].double())
        difference, wanted = torch.stack(found) - torch.stack(wanted), torch.stack(wanted)
        return difference.abs().max().item(), (difference.square().mean() / wanted.square().mean()).sqrt().item()


def measure(text, libraries, a, rng):
    import torch

    case = Case(text)
    graphs, errors, dropped = {}, {}, {}
    for name, library in libraries.items():
        try:
            launches = case.launches(library)
            errors[name] = case.error(launches[0]())
            graphs[name] = decode.capture(launches, a.burst_ms)
        except Exception as error:  # FlashMLA refuses cases in its own ways
            if name == "fa2":
                raise
            dropped[name] = compare.reason_of(error)
            torch.cuda.synchronize()
    if not errors["fa2"][0] <= 1.6e-2:
        raise SystemExit(f"fa2 is wrong at {text}: error {errors['fa2']}; nothing is timed")
    us = {name: t[len(t) // 2] * 1e3 for name, t in compare.time_bursts(graphs, a.rounds, rng).items()}
    rates = dict(tb_per_s=case.bytes / us["fa2"] / 1e6, tflops=case.flops / us["fa2"] / 1e6)
    return dict(case=text, us=us, errors={name: e[1] for name, e in errors.items()}, dropped=dropped, **rates)


def markdown(rows, facts):
    text = ["# Latents, microseconds", ""] + [f"- {k}: {v}" for k, v in facts.items()] + [""]
    text += ["Medians of cold launches in a CUDA graph. Errors: root mean square, relative to that of O, against float64.", ""]
    text += ["| case | fa2 | FlashMLA | TB/s | TFLOP/s | errors of both |", "|---|--:|--:|--:|--:|---|"]
    for row in rows:
        peer = row["us"].get("FlashMLA")
        errors = ", ".join(f"{error:.2e}" for error in row["errors"].values())
        text.append(f"| {row['case']} | {row['us']['fa2']:.1f} | {f'{peer:.1f}' if peer else '-'} | {row['tb_per_s']:.2f} "
                    f"| {row['tflops']:.0f} | {errors} |")
    return "\n".join(text) + "\n"


def main():
    a = parse_args()
    import fa2
    import fa2.flash_mla_interface

    libraries = {"fa2": fa2.flash_mla_interface}
    if importlib.util.find_spec("flash_mla") is not None:
        import flash_mla

        libraries["FlashMLA"] = LegacyFlashMla(flash_mla)
    rows, rng = [], random.Random(0)
    for text in a.case:
        rows.append(measure(text, libraries, a, rng))
        print(rows[-1], flush=True)
    facts = compare.machine_facts(types.SimpleNamespace(version=fa2.__version__), a)
    text = markdown(rows, facts)
    print(text)
    if a.out:
        compare.write(a.out, facts, rows, text)


if __name__ == "__main__":
    main()
