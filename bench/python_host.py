"""Measures the host time of fa2.attention and of PyTorch's SDPA in microseconds, with and without gradients, and the
first call of a process. Tensors are small, so that the host never waits for the GPU. Usage: python bench/python_host.py
[--json]"""

import argparse
import json
import statistics
import subprocess
import sys
import time

FIRST_CALL = """
import time, torch
x = torch.zeros(1, 128, 4, 128, dtype=torch.bfloat16, device="cuda"); torch.cuda.synchronize()
begin = time.perf_counter()
import fa2
imported = time.perf_counter()
fa2.attention(x, x, x, causal=True); torch.cuda.synchronize()
print(1e3 * (imported - begin), 1e3 * (time.perf_counter() - imported))
"""


def per_call(torch, call, calls=200, rounds=25):
    """Returns the median over rounds. The GPU is idle when a round begins, and its queue is never full."""
    for _ in range(20):
        call()
    samples = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append(1e6 * (time.perf_counter() - begin) / calls)
    return statistics.median(samples)


def measure():
    import torch

    import fa2
    from fa2.flash_attn_interface import flash_attn_func

    q, k, v = (torch.randn(1, 128, 4, 128, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    heads_first = [x.transpose(1, 2) for x in (q, k, v)]
    out = torch.empty_like(q)
    packed = [x[0] for x in (q, k, v)]
    borders = torch.tensor([0, 64, 128], dtype=torch.int32, device="cuda")
    tables = dict(cu_seqlens_q=borders, cu_seqlens_k=borders, max_seqlen_q=64, max_seqlen_k=64)
    small = torch.ones(8, device="cuda")
    sdpa = torch.nn.functional.scaled_dot_product_attention
    rows = {}
    with torch.no_grad():
        rows["torch relu"] = per_call(torch, lambda: torch.relu(small))
        rows["fa2.attention"] = per_call(torch, lambda: fa2.attention(q, k, v, causal=True))
        rows["flash_attn_func"] = per_call(torch, lambda: flash_attn_func(q, k, v, causal=True))
        rows["fa2.attention out="] = per_call(torch, lambda: fa2.attention(q, k, v, causal=True, out=out))
        rows["fa2.attention packed"] = per_call(torch, lambda: fa2.attention(*packed, causal=True, **tables))
        rows["torch SDPA"] = per_call(torch, lambda: sdpa(*heads_first, is_causal=True))
    for x in (q, k, v):
        x.requires_grad_()
    heads_first = [x.transpose(1, 2) for x in (q, k, v)]
    rows["fa2.attention, grad"] = per_call(torch, lambda: fa2.attention(q, k, v, causal=True))
    rows["torch SDPA, grad"] = per_call(torch, lambda: sdpa(*heads_first, is_causal=True))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = measure()
    first = []
    for _ in range(5):  # the kernel is in the disk cache by now
        text = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True).stdout
        first.append([float(number) for number in text.split()])
    result = {
        "microseconds": rows,
        "over relu": {name: cost / rows["torch relu"] for name, cost in rows.items()},
        "first call ms": {"import": statistics.median(x for x, _ in first), "call": statistics.median(y for _, y in first)},
    }
    if args.json:
        print(json.dumps(result, indent=2))
        return
    for name, cost in rows.items():
        print(f"{name:22} {cost:7.2f} us  {cost / rows['torch relu']:5.2f} x relu")
    print("first call of a process: import {import:.1f} ms, call {call:.1f} ms".format(**result["first call ms"]))


if __name__ == "__main__":
    main()
