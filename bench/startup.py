"""Measures the cost of starting: compiles the heuristic's kernels one by one on one thread, then loads each from the
disk cache in a fresh process (onto the GPU, if there is one). Also measures the library's size. Writes JSON and
Markdown.

  python3 bench/startup.py --out docs/measurements/startup
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(here, "../build"))
    p.add_argument("--arch", default="sm_90a", help="of the GPU, if there is one")
    p.add_argument("--head-dim", default="32,64,96,128,192,256")
    p.add_argument("--commit", default="", help="recorded in the output; default: git rev-parse")
    p.add_argument("--out", default="", help="writes OUT.json and OUT.md")
    return p.parse_args()


def fa2(a, cache, *words):
    command = [os.path.join(a.build, "tools/fa2"), *words, "--json"]
    run = subprocess.run(command, env=dict(os.environ, FA2_CACHE_DIR=cache, FA2_TUNE="off"), capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(" ".join(command) + "\n" + run.stderr)
    return json.loads(run.stdout)


def load_ms(a, cache, problem, gpu):
    words = ["explain", "--head-dim", str(problem["head_dim"]), "--dtype", problem["dtype"], "--mask", problem["mask"],
             "--seqlen", str(problem["seqlen_q"]), "--heads", str(problem["heads_q"]), "--heads-kv", str(problem["heads_kv"])]
    found = fa2(a, cache, *words, *([] if gpu else ["--arch", a.arch]))["kernels"][0]
    assert found["origin"] == "disk_cache", found
    return found["load_ms"]


def stripped_bytes(library):
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["strip", "-o", out.name, library], check=True)
        return os.path.getsize(out.name)


def cpu():
    with open("/proc/cpuinfo") as f:
        return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))


def main():
    a = arguments()
    with tempfile.TemporaryDirectory() as cache:
        info = fa2(a, cache, "info")
        gpus = info["gpus"]
        made = fa2(a, cache, "precompile", "--arch", a.arch, "--head-dim", a.head_dim, "--dtype", "f16", "--jobs", "1")["kernels"]
        for kernel in made:
            kernel["disk_load_ms"] = statistics.median(load_ms(a, cache, kernel["problem"], gpus) for _ in range(3))
    compiled = [k["compile_ms"] for k in made]
    loaded = [k["disk_load_ms"] for k in made]
    facts = {
        "GPU": gpus[0]["name"] if gpus else "none: loading ends with the file read and checked",
        "CPU": cpu(),
        "NVRTC": info["nvrtc"]["version"],
        "commit": a.commit or subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip(),
        "cold compile, one thread": f"median {statistics.median(compiled):.0f} ms, worst {max(compiled):.0f} ms ({len(made)} kernels)",
        "load from the disk cache": f"median {statistics.median(loaded):.2f} ms, worst {max(loaded):.2f} ms",
        "libfa2.so, stripped": f"{stripped_bytes(os.path.join(a.build, 'libfa2.so'))} bytes",
    }
    text = ["# Starting", ""] + [f"- {k}: {v}" for k, v in facts.items()] + [""]
    text += ["| kernel | config | registers | cubin bytes | compile ms | load ms |", "|---|---|---|---|---|---|"]
    for k in made:
        p = k["problem"]
        config = ",".join(f"{n}={v}" for n, v in k["config"].items())
        text.append(f"| {p['dtype']} d{p['head_dim']} {p['mask']} | {config} | {k['resources']['registers']} | "
                    f"{k['binary_bytes']} | {k['compile_ms']:.0f} | {k['disk_load_ms']:.2f} |")
    print("\n".join(text))
    if a.out:
        with open(a.out + ".json", "w") as f:
            json.dump(dict(facts=facts, kernels=made), f, indent=1)
        with open(a.out + ".md", "w") as f:
            f.write("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
