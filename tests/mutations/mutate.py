#!/usr/bin/env python3
"""Plants bugs that authors of attention kernels make, one at a time, in a scratch copy of the tree, and checks that a
test notices each. Runs the cases of tests/attention, and those of conversions that only older GPUs need, on the interpreter
until one fails: first with asynchronous copies that complete early, then late and with another order of warps. Without a
bug all cases must pass; if numbers are given, only the cases that failed must. A bug whose code is not found is an error.
Exit status 1 if fewer than --at-least are caught.

  python3 tests/mutations/mutate.py                              all bugs: an hour on 4 cores
  python3 tests/mutations/mutate.py --scratch /tmp/mutate 3 17   two of them in seconds, once DIR has the build of the first time
  python3 tests/mutations/mutate.py --checks-off --markdown FILE   which bugs only a check of the machine catches, as a table

The bugs stand in the files next to this one, one file per folder of templates: {file: [(scope, bug, old, new, first)]}.
`scope` is the function or struct that holds the tokens `old`, and `new` replaces them. Test cases whose names begin
with `first` run first.
"""
import argparse
from collections import namedtuple
import concurrent.futures
import contextlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import anchor

TREE = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
TARGET = "fa2_interpreter_tests"
TESTS = "-sf=*tests/attention/*,*tests/instructions/e4m3_test.cpp"
LONGEST = 1800  # seconds allowed for a test whose duration is not known
# Patterns of failures, and the check that each pattern belongs to. The first match counts.
CHECKS = [
    ("race", "race:"),
    ("proxy fence", "no fence.proxy.async"),
    ("wgmma", "wgmma"),
    ("copy in flight", "in flight|never waited for"),
    ("unwritten read", "which nothing has (written|initialised)"),
    ("shared bounds", "outside the block's"),
    ("global bounds", "outside the buffers"),
    ("global access", "at global address"),
    ("divergence", "divergent warp"),
    ("deadlock", "deadlock"),
    ("barrier count", "where others arrived"),
    ("bank conflicts", "bank conflict"),
    ("stray write", "around (O|LSE) was written"),
    ("crash", "SIG[A-Z]+|ended with status"),
    ("time limit", "ran for more than"),
    ("numerics", "FAILED|CHECK|errors of"),
    ("other", ""),
]
MACHINE_CHECKS = [name for name, _ in CHECKS[:12]]

Mutation = namedtuple("Mutation", "path bug scope old new first")
FOLDERS = {  # of the files next to this one
    "tile": "templates/tile",
    "attention_common": "templates/attention/common",
    "forward": "templates/attention/forward",
    "forward_sm80": "templates/attention/forward/sm80",
    "forward_sm90": "templates/attention/forward/sm90",
    "backward": "templates/attention/backward",
    "backward_sm80": "templates/attention/backward/sm80",
    "backward_sm90": "templates/attention/backward/sm90",
    "rows": "templates/attention/rows",
    "host": "planning",
    "parallel": "parallel",
}
MUTATIONS = [Mutation(f"{folder}/{file}", bug, scope, old, new, "".join(first))
             for module, folder in FOLDERS.items()
             for file, bugs in importlib.import_module(module).BUGS.items()
             for scope, bug, old, new, *first in bugs]

# `when`: the first mode in which a test fails: early, late, or never. `checks_off`: the same without the machine's
# checks, where only a wrong output can fail a test; empty without --checks-off.
Result = namedtuple("Result", "number path bug check when test message seconds checks_off")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("numbers", type=int, nargs="*", help="of the mutations to plant; default: all")
    p.add_argument("--list", action="store_true", help="print the mutations and stop")
    p.add_argument("--json", default="", metavar="FILE", help="write the table as JSON; - for stdout, instead of Markdown")
    p.add_argument("--markdown", default="", metavar="FILE", help="write the table to FILE")
    p.add_argument("--at-least", type=int, help="so many must be caught; default: 19 of 20")
    p.add_argument("--checks-off", action="store_true",
                   help="run what a check of the machine caught again with checks off: do outputs show it? (twenty minutes more)")
    p.add_argument("--seed", type=int, default=7, help="of the order of warps in the late runs (default 7)")
    p.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) * 3 // 4), help="test processes at once")
    p.add_argument("--scratch", default="", metavar="DIR", help="work there and keep it; default: a temporary directory")
    return p.parse_args()


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-4000:]}")
    return done.stdout


def mutated(mutation):
    with open(os.path.join(TREE, mutation.path)) as file:
        text = file.read()
    try:
        return anchor.replaced(text, mutation.scope, mutation.old, mutation.new)
    except ValueError as error:
        raise SystemExit(f"{mutation.path}: \"{mutation.bug}\": {error}") from None


class Scratch:
    """A copy of the tree with its own build. Holds one mutation at a time."""

    def __init__(self, directory):
        self.tree = os.path.join(directory, "tree")
        self.build = os.path.join(directory, "build")
        self.binaries = os.path.join(directory, "binaries")
        for stale in (self.tree, self.binaries):
            shutil.rmtree(stale, ignore_errors=True)
        os.makedirs(self.binaries)
        names = run("git", "-C", TREE, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        for name in filter(None, names):
            if os.path.isfile(source := os.path.join(TREE, name)):
                os.makedirs(os.path.dirname(copy := os.path.join(self.tree, name)), exist_ok=True)
                shutil.copy2(source, copy)  # keeps the time, so that an earlier build knows what has changed
        if os.path.isdir(dependencies := os.path.join(TREE, ".deps")):
            os.symlink(dependencies, os.path.join(self.tree, ".deps"))
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        run("cmake", "-G", "Ninja", "-S", self.tree, "-B", self.build, "-DFA2_BUILD_TOOLS=OFF", "-DFA2_BUILD_EXAMPLES=OFF",
            *launcher)

    def executable(self, name, path=MUTATIONS[0].path, text=None):
        """Returns the suite's executable, built with `text` in place of the file at `path`."""
        path = os.path.join(self.tree, path)
        with open(path) as original:
            kept = original.read()
        try:
            with open(path, "w") as out:  # also if nothing changes: the last bug must not stay
                out.write(kept if text is None else text)
            run("ninja", "-C", self.build, TARGET)
            return shutil.copy2(os.path.join(self.build, "tests", TARGET), os.path.join(self.binaries, str(name)))
        finally:
            with open(path, "w") as out:
                out.write(kept)


def kernels_of(executable):
    """Returns the kernel cache that all runs of the executable share."""
    return executable + ".kernels"


def run_test(executable, test, mode, limit):
    """Runs one test case. Returns what failed first (None if nothing did) and the seconds."""
    # doctest takes a comma as a separator, so a ? stands for it.
    command = [executable, "--no-colors", "--abort-after=1", TESTS, "-tc=" + test.replace(",", "?")]
    environment = dict(os.environ, FA2_INTERPRETER=mode, FA2_LOG="warn", TEST_KERNEL_CACHE=kernels_of(executable))
    start = time.monotonic()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return f"ran for more than {limit:.0f} s", time.monotonic() - start
    failure = None if done.returncode == 0 else failure_of(done.stdout, done.returncode)
    return failure, time.monotonic() - start


def failure_of(output, status):
    """Returns the first failure in doctest's output: an exception and its place in the kernel, or the log."""
    if "source and log kept in" in output:
        raise SystemExit("a kernel does not compile: mend the mutation\n" + output)
    if thrown := re.search(r"THREW exception: (.*)\n(.*)", output):
        line = re.search(r" at \S*/((?:attention|tile)/\S+)$", thrown.group(2))
        what = re.sub(r" at global address \w+|: q at .*|\btemplates/", "", thrown.group(1).strip())
        return what + (f" ({line.group(1)})" if line else "")
    if logged := re.search(r"logged: ((?:.*\n)+?)(?:\n|Aborting|===)", output):
        return " ".join(re.sub(r"kernel=\w+_sm90,\S*", "", logged.group(1)).split())
    error = re.search(r"ERROR: (.*)", output)
    return error.group(1) if error else f"ended with status {status}"


def check_of(failure):
    return next(name for name, pattern in CHECKS if re.search(pattern, failure))


def first_failure(executable, tests, mode):
    """Returns (test, failure) of the first test case that fails in this mode, or None."""
    for test, seconds in tests:
        failure, _ = run_test(executable, test, mode, LONGEST if seconds is None else 60 + 20 * seconds)
        if failure:
            return test, failure
    return None


def tests_of(executable):
    listing = run(executable, "--no-colors", TESTS, "-ltc").splitlines()
    return [line for line in listing if line and not line.startswith(("[doctest]", "===="))]


def seconds_without_mutation(executable, test, mode):
    failure, seconds = run_test(executable, test, mode, LONGEST)
    if failure:
        raise SystemExit(f"without any mutation \"{test}\" fails ({mode}): {failure}")
    return seconds


def baseline(executable, modes, pool):
    """Returns the test cases with their seconds, fastest first. All must pass."""
    seconds = {}
    tests = tests_of(executable)
    for mode in modes:
        for test, took in zip(tests, pool.map(lambda t: seconds_without_mutation(executable, t, mode), tests)):
            seconds.setdefault(test, took)
    return sorted(seconds.items(), key=lambda item: item[1])


def first_mode(executable, tests, modes):
    """Returns (early, late or never; test; failure) of the first mode in which a test fails."""
    for mode in modes:
        if found := first_failure(executable, tests, mode):
            return (mode.split(",")[0], *found)
    return "never", "", ""


def judge(number, mutation, executable, unmutated, tests, modes, checks_off):
    """Returns the Result of planting `mutation`. `unmutated` is the executable without a bug, or None if its tests are
    known to pass."""
    start = time.monotonic()
    tests = sorted(tests, key=lambda test: not test[0].startswith(mutation.first))  # then fastest first, as sorted before
    when, test, message = first_mode(executable, tests, modes)
    if unmutated and test:
        seconds_without_mutation(unmutated, test, next(mode for mode in modes if mode.startswith(when)))
    seconds = round(time.monotonic() - start, 1)
    check = "nothing" if when == "never" else check_of(message)
    outputs = ""
    if checks_off and when != "never":
        is_fault = check in MACHINE_CHECKS
        outputs = first_mode(executable, tests, [m + ",unchecked" for m in modes])[0] if is_fault else when
    os.remove(executable)
    shutil.rmtree(kernels_of(executable), ignore_errors=True)
    say(f"{number:3} {mutation.bug}: {check}, {when}, {seconds:.0f} s" + (f"; checks off: {outputs}" if outputs else ""))
    return Result(number, mutation.path, mutation.bug, check, when, test, message, seconds, outputs)


def wanted(numbers):
    for number in numbers:
        if not 1 <= number <= len(MUTATIONS):
            raise SystemExit(f"there are mutations 1..{len(MUTATIONS)}, not {number}")
    return [(n, m) for n, m in enumerate(MUTATIONS, 1) if not numbers or n in numbers]


def experiment(a, chosen, directory):
    modes = ["early", f"late,seed={a.seed}"]
    say("building the tree without a mutation ...")
    scratch = Scratch(directory)
    unmutated = scratch.executable("none")
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        if a.numbers:
            tests = [(test, None) for test in tests_of(unmutated)]
        else:
            say("running the suite without a mutation ...")
            tests, unmutated = baseline(unmutated, modes, pool), None
        say(f"planting {len(chosen)} mutations")
        pending = []
        for number, mutation in chosen:
            executable = scratch.executable(number, mutation.path, mutated(mutation))
            pending.append(pool.submit(judge, number, mutation, executable, unmutated, tests, modes, a.checks_off))
        return [p.result() for p in pending]


def table(results):
    def row(*cells):
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    caught = [r for r in results if r.when != "never"]
    by_machine = [r for r in caught if r.check in MACHINE_CHECKS]
    lines = [row("#", "file", "bug", "caught by", "copies complete", "checks off", "first failure", "s"),
             row("--:", "---", "---", "---", "---", "---", "---", "--:")]
    for r in results:
        lines.append(row(r.number, r.path.removeprefix("templates/attention/"), r.bug, r.check, r.when, r.checks_off, r.message[:140],
                         round(r.seconds)))
    lines += ["", f"{len(caught)} of {len(results)} are caught, {len(by_machine)} of them by a check of the machine."]
    if any(r.checks_off for r in results):
        of = {when: sum(r.checks_off == when for r in by_machine) for when in ("early", "late", "never")}
        lines.append(f"With checks off, {of['never']} of those {len(by_machine)} pass every test, and {of['late']} more fail "
                     "only where copies complete late.")
    return "\n".join(lines) + "\n"


def main():
    a = arguments()
    chosen = wanted(a.numbers)
    for _, mutation in chosen:
        mutated(mutation)
    if a.list:
        for number, mutation in chosen:
            print(f"{number:3} {mutation.path}: {mutation.bug}")
        return 0
    with contextlib.ExitStack() as stack:
        directory = a.scratch or stack.enter_context(tempfile.TemporaryDirectory(prefix="fa2-mutate-"))
        results = experiment(a, chosen, directory)
    if a.json:
        with open(a.json, "w") if a.json != "-" else contextlib.nullcontext(sys.stdout) as out:
            json.dump([r._asdict() for r in results], out, indent=1)
    if a.json != "-":
        print(table(results))
    if a.markdown:
        with open(a.markdown, "w") as out:
            out.write(table(results))
    caught = sum(r.when != "never" for r in results)
    at_least = len(results) * 19 // 20 if a.at_least is None else a.at_least
    if caught < at_least:
        say(f"{caught} of {len(results)} are caught, {at_least} must be")
    return int(caught < at_least)


if __name__ == "__main__":
    sys.exit(main())
