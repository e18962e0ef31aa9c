"""Times the `fa2` commands of two builds in turn, in an order that is shuffled every run, and prints the speed of the new
one over the old one at every point. Other options go to `fa2 bench`. The builds need not share an API: only the fields
`problem`, `median_us` and `error` of the points are read. Each has a kernel cache of its own, which --caches keeps.

  python3 bench/builds.py old/build/tools/fa2 build/tools/fa2                          # the 36 points of the forward
  python3 bench/builds.py old/fa2 new/fa2 --runs 5 --json -- --backward --head-dim 128
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

import compare


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("old", help="the fa2 command that is compared with")
    p.add_argument("new", help="the fa2 command that is judged")
    p.add_argument("--runs", type=int, default=3, help="of each command; a point counts by the median of its runs")
    p.add_argument("--seed", type=int, default=1, help="of the order")
    p.add_argument("--tune", choices=["off", "stored", "now"], default="stored")
    p.add_argument("--caches", default="", help="a folder for both kernel caches; default: a temporary one")
    p.add_argument("--json", action="store_true", help="print one JSON document on stdout and nothing else there")
    p.add_argument("bench", nargs="*", help="options of `fa2 bench`, after --")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    a = p.parse_args(words[:end])  # which gives options after -- to no argument that follows other options
    a.bench += words[end + 1 :]
    return a


def times_of(command, options, tune, cache):
    """Returns problem -> microseconds; None where the problem failed, with its error on stderr."""
    environment = dict(os.environ, FA2_TUNE=tune, FA2_CACHE_DIR=cache)
    run = subprocess.run([command, "bench", "--json", *options], env=environment, stdout=subprocess.PIPE, text=True)
    if not run.stdout:
        raise SystemExit(f"{command} bench: exit status {run.returncode} and no JSON, must print a document")
    times = {}
    for point in json.loads(run.stdout)["points"]:
        times[point["problem"]] = None if point["error"] else point["median_us"]
        if point["error"]:
            print(f"{command}: {point['problem']}: {point['error']}", file=sys.stderr)
    return times


def measure(a, caches):
    """Returns "old" and "new" -> problem -> microseconds of every run."""
    commands, rng = {"old": a.old, "new": a.new}, random.Random(a.seed)
    measured = {name: {} for name in commands}
    for run in range(a.runs):
        for name in rng.sample(sorted(commands), len(commands)):
            print(f"run {run + 1} of {a.runs}: {name}", file=sys.stderr)
            for problem, us in times_of(commands[name], a.bench, a.tune, os.path.join(caches, name)).items():
                measured[name].setdefault(problem, []).append(us)
    return measured


def points_of(measured):
    """Returns a dict per problem that both builds measured in every run."""
    points = []
    for problem, old in measured["old"].items():
        new = measured["new"].get(problem, [])
        if new and None not in old + new:
            medians = statistics.median(old), statistics.median(new)
            points.append(dict(problem=problem, old_us=medians[0], new_us=medians[1], speed=medians[0] / medians[1]))
    return points


def main():
    a = arguments()
    with tempfile.TemporaryDirectory() as temporary:
        measured = measure(a, a.caches or temporary)
    points = points_of(measured)
    if not points:
        raise SystemExit("no point was measured by both builds")
    speeds = [point["speed"] for point in points]
    mean = compare.geometric_mean(speeds)
    missing = sorted({*measured["old"], *measured["new"]} - {point["problem"] for point in points})
    if a.json:
        print(json.dumps(dict(points=points, geometric_mean=mean, worst=min(speeds), missing=missing), indent=1))
        return
    print("speed    old us    new us  problem")
    for point in points:
        print(f"{point['speed']:5.3f} {point['old_us']:>9.1f} {point['new_us']:>9.1f}  {point['problem']}")
    print(f"{len(points)} points, new over old: geometric mean {mean:.3f}, worst {min(speeds):.3f}")
    for problem in missing:
        print(f"not measured by both: {problem}")


if __name__ == "__main__":
    main()
