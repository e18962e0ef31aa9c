"""Measures what a first run costs its user: the calls of a chat, prompts and then single queries over growing keys, and the
first training step. Each runs in a process of its own, first with an empty cache of kernels and again with what that left. Every
call is timed on the host, and waits for the GPU. Writes JSON and Markdown.

  python3 bench/first_minute.py --heads 28/4,32/8 --out docs/measurements/first-minute
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

PROMPTS = ((1, 137), (1, 900), (4, 333), (1, 3000))  # (batch, tokens)
ANSWER = 200  # generated tokens


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--heads", default="28/4,32/8", help="heads of queries / of keys and values")
    p.add_argument("--head-dim", type=int, default=128)
    p.add_argument("--commit", default="", help="recorded in the output; default: git rev-parse")
    p.add_argument("--out", default="", help="writes OUT.json and OUT.md")
    p.add_argument("--run", choices=("chat", "train"), help=argparse.SUPPRESS)  # in the process that is measured
    return p.parse_args()


class Clock:
    """Times calls of attention() between two waits for the GPU."""

    def __init__(self, heads, head_dim):
        import torch

        self.torch, self.head_dim, self.calls = torch, head_dim, []
        self.heads = tuple(int(h) for h in heads.split("/"))
        self.tensors(1, 1, 1, False)  # starts CUDA

    def tensors(self, batch, queries, keys, grad):
        new = lambda rows, heads: self.torch.randn(
            batch, rows, heads, self.head_dim, device="cuda", dtype=self.torch.bfloat16, requires_grad=grad
        )
        q, k, v = new(queries, self.heads[0]), new(keys, self.heads[1]), new(keys, self.heads[1])
        self.torch.cuda.synchronize()
        return q, k, v

    def time(self, name, body):
        start = time.perf_counter()
        result = body()
        self.torch.cuda.synchronize()
        self.calls.append((name, time.perf_counter() - start))
        return result


def chat(clock):
    import fa2

    for batch, prompt in PROMPTS:
        for queries, keys in [(prompt, prompt)] + [(1, prompt + n + 1) for n in range(ANSWER)]:
            q, k, v = clock.tensors(batch, queries, keys, False)
            clock.time(f"{batch} x {queries} over {keys}", lambda: fa2.attention(q, k, v, causal=True))


def train(clock):
    import fa2

    q, k, v = clock.tensors(2, 2048, 2048, True)
    out = clock.time("forward", lambda: fa2.attention(q, k, v, causal=True))
    clock.time("backward", lambda: out.sum().backward())


def measured(a, what, heads, cache):
    """Returns the calls' names and seconds, in a new process."""
    command = [sys.executable, os.path.abspath(__file__), "--run", what, "--heads", heads, "--head-dim", str(a.head_dim)]
    run = subprocess.run(command, env=dict(os.environ, FA2_CACHE_DIR=cache), capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(run.stderr)
    return json.loads(run.stdout.splitlines()[-1])


def facts(a):
    import torch

    commit = a.commit or subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {"GPU": torch.cuda.get_device_name(), "PyTorch": torch.__version__, "commit": commit}


def main():
    a = arguments()
    if a.run:
        clock = Clock(a.heads, a.head_dim)
        {"chat": chat, "train": train}[a.run](clock)
        print(json.dumps(clock.calls))
        return
    text = ["# The first minute", "", "| | heads | calls | empty cache, s | next process, s | difference | longest call, s |"]
    text += ["|---|--:|--:|--:|--:|--:|--:|"]
    rows = []
    for what in ("chat", "train"):
        for heads in a.heads.split(","):
            with tempfile.TemporaryDirectory() as cache:
                first, second = (measured(a, what, heads, cache) for _ in range(2))
            total, again = (sum(s for _, s in calls) for calls in (first, second))
            name, longest = max(first, key=lambda call: call[1])
            rows.append(dict(what=what, heads=heads, first=first, second=second))
            text.append(f"| {what} | {heads} | {len(first)} | {total:.2f} | {again:.2f} | {total - again:.2f} | {longest:.2f}: {name} |")
            print("\n".join(text[2:] if len(rows) == 1 else text[-1:]), flush=True)
    if a.out:
        with open(a.out + ".json", "w") as f:
            json.dump(dict(facts=facts(a), rows=rows), f, indent=1)
        with open(a.out + ".md", "w") as f:
            f.write("\n".join(text + [""] + [f"- {k}: {v}" for k, v in facts(a).items()]) + "\n")


if __name__ == "__main__":
    main()
