"""Times fa2 and every attention backend of PyTorch: same tensors, one process, CUDA graphs of short bursts, an order
that is shuffled every round, medians of CUDA events. Refuses to time a wrong result. With a variant, also times plain
attention ("plain"), each counted by its own visible pairs; dropout is also compared with PyTorch's backends. Writes
JSON and Markdown.

  python3 bench/compare.py --out docs/measurements/forward            # FlashAttention's matrix, 16k tokens, hidden 2048
  python3 bench/compare.py --head-dim 128 --seqlen 1024,4096 --causal yes --tune now
  python3 bench/compare.py --seqlen 2048,8192 --inputs x1,x2,x4,x12,sink,drift
  python3 bench/compare.py --head-dim 128 --seqlen 4096,16384 --causal yes --softcap 30 --flex
  python3 bench/compare.py --head-dim 128 --causal yes --backward --dropout 0.1
  python3 bench/compare.py --train                                    # forward and backward as one
  python3 bench/compare.py --backward --config kernel=backward_dq_sm80,tile_m=64,tile_n=64   # in addition to the chosen one
"""
import argparse
import json
import math
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backward  # noqa: E402
import c_binding as binding  # noqa: E402
import inputs  # noqa: E402
import variants  # noqa: E402


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    ints = lambda text: [int(x) for x in text.split(",")]  # noqa: E731
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default=os.path.join(here, "../build/libfa2.so"))
    p.add_argument("--beside", default="", help="another build of libfa2.so with the same C structs, "
                   "timed in the same rounds as \"beside\" (bench/builds.py: builds with others)")
    direction = p.add_mutually_exclusive_group()
    direction.add_argument("--backward", action="store_true", help="the gradients of Q, K and V in place of the forward")
    direction.add_argument("--train", action="store_true", help="the forward with LSE and the gradients, timed as one")
    p.add_argument("--config", action="append", default=[], help="pins the kernels of the pass that it names: timed as \"fa2 CONFIG\" in "
                   "the same rounds; repeatable")
    p.add_argument("--bitwise", action="store_true", help="with --backward or --train: also times Determinism::bitwise, in the same rounds")
    p.add_argument("--head-dim", type=ints, default=[64, 128, 256])
    p.add_argument("--seqlen", type=ints, default=[512, 1024, 2048, 4096, 8192, 16384])
    p.add_argument("--causal", choices=["both", "yes", "no"], default="both")
    p.add_argument("--dtype", choices=["f16", "bf16"], default="f16")
    p.add_argument("--inputs", type=lambda text: text.split(","), default=["x1", "x4"],
                   help=f"classes of inputs, of {','.join(inputs.CLASSES)}: x4 scales N(0,1) queries by 4, which makes rows peaked")
    p.add_argument("--tokens", type=int, default=16384, help="batch = tokens / seqlen")
    p.add_argument("--hidden", type=int, default=2048, help="heads = hidden / head_dim, unless --heads is given")
    p.add_argument("--heads", default="", help="q/kv, for example 32/8")
    variants.add_arguments(p)
    p.add_argument("--tune", choices=["off", "stored", "now"], default="off")
    p.add_argument("--tune-budget-ms", type=int, default=3000)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--burst-ms", type=float, default=12.0)
    p.add_argument("--flex", action="store_true", help="also compile and time FlexAttention (slow to start)")
    p.add_argument("--commit", default="", help="recorded in the output; default: git rev-parse")
    p.add_argument("--out", default="", help="writes OUT.json and OUT.md")
    p.add_argument("--dry-run", action="store_true", help="print the points and stop")
    a = p.parse_args()
    if a.flex and a.dropout:
        p.error("FlexAttention has no dropout")
    if unknown := [name for name in a.inputs if name not in inputs.CLASSES]:
        p.error(f"--inputs = {','.join(unknown)}, must be of {','.join(inputs.CLASSES)}")
    return a


def masks_of(a):
    return {"both": [False, True], "yes": [True], "no": [False]}[a.causal]


def points(a):
    for d in a.head_dim:
        hq, hk = (int(x) for x in a.heads.split("/")) if a.heads else [max(1, a.hidden // d)] * 2
        for causal in masks_of(a):
            for s in a.seqlen:
                for name in a.inputs:
                    yield dict(d=d, causal=causal, seqlen=s, batch=max(1, a.tokens // s), heads_q=hq, heads_kv=hk, inputs=name)


def torch_systems(pt, q, k, v, with_flex, variant):
    """Returns name -> function for PyTorch's backends. With variants other than dropout, only FlexAttention remains."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    grouped = dict(enable_gqa=True) if pt["heads_q"] != pt["heads_kv"] else {}

    def sdpa(backend):
        def run():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, dropout_p=variant.dropout, is_causal=pt["causal"], **grouped)

        return run

    systems = {}
    if not variant.is_unknown_to_peers():
        systems = {
            "FLASH": sdpa(SDPBackend.FLASH_ATTENTION),
            "CUDNN": sdpa(SDPBackend.CUDNN_ATTENTION),
            "EFFICIENT": sdpa(SDPBackend.EFFICIENT_ATTENTION),
        }
    fa3 = flash_attention_3()
    if fa3 is not None and not variant.any():
        by_rows = [x.transpose(1, 2) for x in (q, k, v)]
        systems["FA3"] = lambda: output_of(fa3.flash_attn_func(*by_rows, causal=pt["causal"])).transpose(1, 2)
    if with_flex:
        systems["FLEX"] = variant.flex(q, k, v, pt["causal"], grouped)
    return systems


def flash_attention_3():
    """Returns FlashAttention-3's module; None if it is not installed."""
    try:
        import flash_attn_interface
    except ImportError:
        return None
    return flash_attn_interface


def output_of(result):
    """Returns O. Some versions of flash_attn_func return LSE beside it."""
    return result[0] if isinstance(result, tuple) else result


def error_against_float32(pt, q, k, v, o, variant):
    """Returns max |o - reference| over the first and last batch and head, in float32 maths."""
    import torch

    worst = 0.0
    group = pt["heads_q"] // pt["heads_kv"]
    for b, h in {(0, 0), (pt["batch"] - 1, pt["heads_q"] - 1)}:
        rows = slice(max(0, pt["seqlen"] - 1024), pt["seqlen"])
        s = q[b, h, rows].float() @ k[b, h // group].float().T / math.sqrt(pt["d"])
        p = variant.probabilities(s, b, h, rows, pt["causal"])
        worst = max(worst, (p @ v[b, h // group].float() - o[b, h, rows].float()).abs().max().item())
    return worst


def capture(run, burst_ms, stream=None):
    """Returns a CUDA graph of a burst of launches, and their number. `stream`: the one to capture; None: any."""
    import torch

    start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
    with torch.cuda.stream(stream or torch.cuda.Stream()):
        for _ in range(2):
            run()
        start.record()
        run()
        stop.record()
    torch.cuda.synchronize()
    count = max(2, min(60, int(burst_ms / max(start.elapsed_time(stop), 1e-3))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(count):
            run()
    return graph, count


def reason_of(error):
    return " ".join(str(error).split())[:240]


def measure(systems, a, rng):
    """Returns name -> sorted milliseconds per launch, and name -> reason for every system that raised an exception."""
    import torch

    bursts, dropped = {}, {}
    for name, run in systems.items():
        try:
            bursts[name] = capture(run, a.burst_ms)
        except Exception as error:  # a backend may refuse a shape in its own way
            dropped[name] = reason_of(error)
            torch.cuda.synchronize()
    return time_bursts(bursts, a.rounds, rng), dropped


def time_bursts(bursts, rounds, rng):
    """Returns name -> sorted milliseconds per launch. `bursts`: name -> (graph, number of its launches)."""
    import torch

    times = {name: [] for name in bursts}
    for _ in range(rounds):
        order = list(bursts)
        rng.shuffle(order)
        for name in order:
            graph, count = bursts[name]
            start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            times[name].append(start.elapsed_time(stop) / count)
    return {name: sorted(t) for name, t in times.items()}


class Forward:
    """A forward at one point: its inputs, its check, and the systems that it is compared with."""

    title, forwards = "Forward", 1

    def __init__(self, pt, q, k, v, variant, a):
        self.pt, self.inputs, self.variant, self.with_flex = pt, (q, k, v), variant, a.flex
        self.limit = (2e-3 if a.dtype == "f16" else 1.6e-2) * inputs.limit_factor(pt["inputs"]) / (1 - variant.dropout)
        self.errors, self.refusals = {}, {}

    def peers(self, library):
        """Returns name -> function."""
        systems = torch_systems(self.pt, *self.inputs, self.with_flex, self.variant)
        if self.variant.any():
            systems["plain"], _ = self.plan(library, variants.Variants())
        return systems

    def plan(self, library, variant=None):
        import torch

        self.out = torch.full_like(self.inputs[0], math.nan)
        return library.plan(*self.inputs, self.out, self.pt["causal"], variant=variant or self.variant)

    def check(self, name):
        """Checks the output of the last plan, which must have run."""
        self.errors[name] = error_against_float32(self.pt, *self.inputs, self.out, self.variant)
        if not self.errors[name] <= self.limit:
            raise SystemExit(f"{name} is wrong at {self.pt}: error {self.errors[name]}, limit {self.limit}; nothing is timed")


class Train(backward.Backward):
    """A forward and its backward, timed together."""

    title, forwards = "Forward + backward", 1 + backward.Backward.forwards

    def __init__(self, *given):
        super().__init__(*given)
        self.forward = Forward(*given)

    def timed(self, forward, backward):
        return lambda: backward(*(forward() or ()))

    def explained(self, forward, backward):
        return dict(kernels=forward["kernels"] + backward["kernels"])

    def check(self, name):
        """Appends the error of O to those of the gradients."""
        super().check(name)
        self.forward.out = self.out
        self.forward.check(name)
        self.errors[name].append(self.forward.errors[name])


def task_of(a):
    return Train if a.train else backward.Backward if a.backward else Forward


def checked_systems(libraries, task):
    """Returns name -> function, only for correct results, and the kernels of "fa2"."""
    systems = {}
    for name, library in libraries.items():
        try:
            run, explained = task.plan(library)
        except RuntimeError as error:  # a pinned configuration may not be able to compute this
            if name == "fa2":
                raise
            task.refusals[name] = error
            continue
        run()
        task.check(name)
        systems[name] = run
        if name == "fa2":
            kernels = explained["kernels"]
    return systems, kernels


def measure_point(libraries, pt, a, rng):
    import torch

    q, k, v = inputs.tensors(pt, torch.bfloat16 if a.dtype == "bf16" else torch.float16)
    variant = variants.Variants.of(a, pt["heads_q"])
    if variant.dropout:
        variant.kept = libraries["fa2"].dropout_mask(q, k, variant)
    task = task_of(a)(pt, q, k, v, variant, a)
    systems, kernels = checked_systems(libraries, task)
    variant.kept = None  # frees gigabytes
    times, dropped = measure({**systems, **task.peers(libraries["fa2"])}, a, rng)
    dropped.update({name: reason_of(error) for name, error in task.refusals.items()})
    flops = lambda of: task.forwards * 4 * pt["batch"] * pt["heads_q"] * pt["d"] * of.pairs(pt["seqlen"], pt["causal"])  # noqa: E731
    row = dict(pt, error=task.errors["fa2"], errors=task.errors, dropped=dropped, config="; ".join(map(config_text, kernels)))
    row["origin"] = " ".join(dict.fromkeys(kernel["config_origin"] for kernel in kernels))
    row["compile_ms"] = sum(kernel["compile_ms"] for kernel in kernels)
    row["registers"] = max(kernel["resources"]["registers"] for kernel in kernels)
    row["tflops"] = {n: flops(variants.Variants() if n == "plain" else variant) / t[len(t) // 2] / 1e9 for n, t in times.items()}
    row["spread"] = {n: t[-1] / t[0] for n, t in times.items()}
    return row


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def summary(rows):
    """Returns lines with the geometric mean and the worst point of fa2 over each peer: per head dim and class of inputs, per
    head dim, and over all."""
    lines = []
    classes = list(dict.fromkeys(r["inputs"] for r in rows))
    for d in sorted({r["d"] for r in rows}) + ["all"]:
        for name in (classes if len(classes) > 1 else []) + ["all"]:
            for peer in names_of(rows)[1:]:
                ratios = [r["tflops"]["fa2"] / r["tflops"][peer] for r in rows
                          if d in (r["d"], "all") and name in (r["inputs"], "all") and peer in r["tflops"]]
                if ratios:
                    lines.append(f"d {d}, inputs {name}: fa2 / {peer}: geometric mean {geometric_mean(ratios):.3f}, "
                                 f"worst {min(ratios):.3f}, best {max(ratios):.3f} ({len(ratios)} points)")
    return lines


def config_text(kernel):
    return ",".join(f"{name}={value}" for name, value in kernel["config"].items())


def names_of(rows):
    return list(dict.fromkeys(name for row in rows for name in row["tflops"]))


def markdown(rows, facts, task):
    names = names_of(rows)
    text = [f"# {task.title}, TFLOP/s", ""] + [f"- {k}: {v}" for k, v in facts.items()] + [""]
    text += [f"{4 * task.forwards:g} batch heads seqlen^2 head_dim operations, half of that under a causal mask; with a window, of visible"
             " pairs. Medians; spread is slowest / fastest burst of fa2.", ""]
    peers = [name for name in ("FLASH", "CUDNN", "FA3", "FA4") if name in names]
    text.append("| d | mask | seqlen | inputs | heads | " + " | ".join(names + [f"fa2/{peer}" for peer in peers]) + " | spread | config |")
    text.append("|" + "---|" * (len(names) + len(peers) + 7))
    for r in rows:
        t = r["tflops"]
        ratio = lambda peer: f"{t['fa2'] / t[peer]:.2f}" if peer in t else "-"  # noqa: E731
        text.append(f"| {r['d']} | {'causal' if r['causal'] else 'full'} | {r['seqlen']} | {r['inputs']} | {r['heads_q']}/{r['heads_kv']} | "
                    + " | ".join([f"{t[n]:.0f}" if n in t else "-" for n in names] + [ratio(peer) for peer in peers])
                    + f" | {r['spread']['fa2']:.2f} | {r['config']} |")
    return "\n".join(text + [""] + [f"- {line}" for line in summary(rows)]) + "\n"


def machine_facts(library, a):
    import torch

    run = lambda *c: subprocess.run(c, capture_output=True, text=True).stdout.strip()  # noqa: E731
    return {
        "GPU": torch.cuda.get_device_name(0),
        "driver": run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "PyTorch": torch.__version__,
        "CUDA": torch.version.cuda,
        "cuDNN": torch.backends.cudnn.version(),
        "fa2": library.version,
        "commit": a.commit or run("git", "rev-parse", "--short", "HEAD"),
        "command": "python3 " + " ".join([os.path.relpath(sys.argv[0])] + sys.argv[1:]),
    }


def write(out, facts, rows, text):
    """Writes the rows to OUT.json and the text to OUT.md."""
    with open(out + ".json", "w") as f:
        json.dump(dict(facts=facts, rows=rows), f, indent=1)
    with open(out + ".md", "w") as f:
        f.write(text)


def main():
    a = arguments()
    todo = list(points(a))
    if a.dry_run:
        print("\n".join(map(str, todo)))
        return
    library = binding.Library(a.library, a.tune, a.tune_budget_ms)
    libraries = {"fa2": library}
    if a.beside:
        libraries["beside"] = binding.Library(a.beside, a.tune, a.tune_budget_ms)
    if a.bitwise:
        libraries["bitwise"] = binding.Library(a.library, a.tune, a.tune_budget_ms, bitwise=True)
    for config in a.config:
        libraries["fa2 " + config] = binding.Library(a.library, a.tune, a.tune_budget_ms, config=config)
    facts, rng, rows = machine_facts(library, a), random.Random(1), []
    for pt in todo:
        row = measure_point(libraries, pt, a, rng)
        rows.append(row)
        print(f"d {pt['d']:3} {'causal' if pt['causal'] else 'full':6} {pt['seqlen']:6} {pt['inputs']:5} "
              + "  ".join(f"{n} {x:4.0f}" for n, x in row["tflops"].items())
              + f"  [{row['origin']}] {row['dropped'] or ''}", flush=True)
    print("\n".join(summary(rows)))
    if a.out:
        write(a.out, facts, rows, markdown(rows, facts, task_of(a)))


if __name__ == "__main__":
    main()
