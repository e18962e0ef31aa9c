"""Runs PyTorch's tests of FlexAttention on fa2.flex_attention(), and prints which pass, with the reasons of the others.

FILE is test/inductor/test_flex_attention.py of the PyTorch that is installed, which its tests import (`pip install expecttest`). Where
a test calls what torch.compile() made of flex_attention(), in float16 or bfloat16, fa2 computes; elsewhere PyTorch does, so that
results are compared with PyTorch's own. Tests of the compiler's code and counters are not run.

  python3 scripts/flex_conformance.py FILE                                          # on a GPU
  python3 scripts/flex_conformance.py FILE --set S=64 --set B=1 --set H=2 --set D=16    # on the interpreter: slow, so shrink
  python3 scripts/flex_conformance.py FILE --only builtin_score_mods --json >results.json
"""

import argparse
import ast
import collections
import contextlib
import inspect
import json
import re
import sys
import textwrap
import time
import types
import unittest

PASSED, RAISED, FAILED, SKIPPED, OTHER = RESULTS = ("passed", "raised", "failed", "skipped", "not fa2")
WIDTH, NAMES = 80, 38  # of the table, and of the names in it
#: Names in tests of what the compiler does, rather than of results.
OF_COMPILERS = frozenset(
    """BackendCompilerFailed CompileCounter CompileCounterWithBackend EagerAndRecordGraphs FileCheck counters explain export
    frame_count fresh_cache make_fx metrics normalize_gm run_and_get_code run_fw_bw_and_get_code""".split()
)


class Tests(ast.NodeTransformer):
    """Prepares the source: sets values that the module assigns, and replaces torch.compile()."""

    def __init__(self, values):
        self.values, self.found, self.methods, self._depth = values, set(), {}, 0

    def visit_Assign(self, node):
        name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else None
        if self._depth == 0 and name in self.values:
            self.found.add(name)
            node.value = ast.copy_location(ast.parse(self.values[name], mode="eval").body, node.value)
        return self.generic_visit(node)

    def visit_Attribute(self, node):
        if ast.unparse(node) == "torch.compile":
            return ast.copy_location(ast.Name("_compile", node.ctx), node)
        return self.generic_visit(node)

    def visit_ClassDef(self, node):
        for method in node.body:
            if isinstance(method, ast.FunctionDef):
                names = (getattr(x, "id", getattr(x, "attr", None)) for statement in method.body for x in ast.walk(statement))
                self.methods[method.name] = set(names)
        return self._deeper(node)

    def _deeper(self, node):
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    visit_FunctionDef = _deeper

    def method_of(self, test):
        """Returns the method that a test, with its parameters in its name, was made of."""
        return max((name for name in self.methods if test == name or test.startswith(f"{name}_")), key=len, default=test)

    def is_of_compilers(self, method):
        reached, waiting = set(), [method]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += self.methods.get(name, ())
        return not OF_COMPILERS.isdisjoint(reached)


class Binding:
    """What stands for PyTorch's flex_attention(), create_block_mask() and torch.compile() while tests run."""

    def __init__(self, keeps_blocks):
        import fa2
        import torch.nn.attention.flex_attention as flex

        self.fa2, self.keeps_blocks = fa2, keeps_blocks
        self.calls, self._compiled = 0, 0
        self._attention, self._create = flex.flex_attention, flex.create_block_mask
        flex.flex_attention, flex.create_block_mask = self.flex_attention, self.create_block_mask

    def compile(self, function=None, **options):
        if function is None:
            return lambda function: self.compile(function, **options)

        def compiled(*args, **keywords):
            self._compiled += 1
            try:
                return function(*args, **keywords)
            finally:
                self._compiled -= 1

        return compiled

    def flex_attention(self, *args, **keywords):
        if not self._compiled:
            return self._attention(*args, **keywords)
        given = inspect.signature(self._attention).bind(*args, **keywords).arguments
        dtypes = {str(given[name].dtype).removeprefix("torch.") for name in ("query", "key", "value")}
        if not dtypes <= {"float16", "bfloat16"}:
            raise unittest.SkipTest(f"dtype = {', '.join(sorted(dtypes))}")
        mask = given.get("block_mask")
        ours = getattr(mask, "_fa2_mask", None)
        if ours is not None and ours.mask_mod is mask.mask_mod and ours.seq_lengths == tuple(mask.seq_lengths) and not self.keeps_blocks:
            given["block_mask"] = ours
        self.calls += 1
        return self.fa2.flex_attention(**given)

    def create_block_mask(self, *args, **keywords):
        """Returns PyTorch's mask, which keeps fa2's."""
        made = self._create(*args, **keywords)
        given = inspect.signature(self._create).bind(*args, **keywords).arguments
        names = inspect.signature(self.fa2.create_block_mask).parameters
        made._fa2_mask = self.fa2.create_block_mask(**{name: x for name, x in given.items() if name in names})
        return made


class Results(unittest.TestResult):
    """Keeps one record of each test."""

    def __init__(self, tests, binding):
        super().__init__()
        self.tests, self.binding, self.records = tests, binding, []
        self.begun, self.before = 0.0, 0

    def startTest(self, test):
        super().startTest(test)
        self.begun, self.before = time.perf_counter(), self.binding.calls

    def _record(self, test, result, reason=""):
        name = test.id().rpartition(".")[2]
        calls = self.binding.calls - self.before
        if result in (PASSED, FAILED) and not calls:
            result, reason = OTHER, reason or "called flex_attention() in no compiled function"
        seconds = round(time.perf_counter() - self.begun, 3)
        self.records.append({"test": name, "method": self.tests.method_of(name), "result": result, "reason": reason, "calls": calls, "seconds": seconds})
        print(f"\r{len(self.records)} tests", end="", file=sys.stderr, flush=True)

    def addSuccess(self, test):
        self._record(test, PASSED)

    def addUnexpectedSuccess(self, test):
        self._record(test, PASSED)

    def addSkip(self, test, reason):
        self._record(test, SKIPPED, reason)

    def addExpectedFailure(self, test, error):
        self._record(test, SKIPPED, f"expected failure: {reason_of(error[1])}")

    def addFailure(self, test, error):
        self.addError(test, error)

    def addError(self, test, error):
        kind = RAISED if isinstance(error[1], self.binding.fa2.Error) else FAILED
        self._record(test, kind, reason_of(error[1]))


def reason_of(error):
    """Returns one line of an error, with N for numbers, so that equal reasons can be counted."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    line = lines[1] if re.match(r"invalid request, \d+ rules? broken:", lines[0]) and len(lines) > 1 else lines[0]
    line = re.sub(r"^\S+\.py:\d+: ", "", line)
    line = re.sub(r"-?\b\d+(\.\d+)?(e[-+]?\d+)?\b", "N", line)
    return line if isinstance(error, AssertionError) or "must" in line else f"{type(error).__name__}: {line}"


def load(path, values):
    """Returns the prepared source of the tests, and their module's code."""
    with open(path) as file:
        tree = ast.parse(file.read(), path)
    tests = Tests(values)
    tree = ast.fix_missing_locations(tests.visit(tree))
    if missing := values.keys() - tests.found:
        raise SystemExit(f"--set {', '.join(sorted(missing))} = a name that {path} does not assign, must be one that it does: for example S=64")
    return tests, compile(tree, path, "exec")


def cases_of(module, only, tests):
    for kind in vars(module).values():
        if isinstance(kind, type) and issubclass(kind, unittest.TestCase) and kind.__module__ == module.__name__:
            for name in unittest.defaultTestLoader.getTestCaseNames(kind):
                if only in name and not tests.is_of_compilers(tests.method_of(name)):
                    yield kind(name)


def run(path, values, only, keeps_blocks, part):
    """Returns the records of a part (number from 1, parts) of all tests."""
    tests, code = load(path, values)
    binding = Binding(keeps_blocks)
    module = types.ModuleType("flex_conformance_tests")
    module.__file__, module._compile = path, binding.compile
    sys.modules[module.__name__] = module
    with contextlib.redirect_stdout(sys.stderr):  # for what PyTorch's tests print
        exec(code, vars(module))
        results = Results(tests, binding)
        number, parts = part
        for case in list(cases_of(module, only, tests))[number - 1 :: parts]:
            case.run(results)
        print()
    return results.records


def table_of(records):
    """Returns the lines of a table of tests, and of reasons, each at most WIDTH wide."""
    by_method = collections.defaultdict(collections.Counter)
    for record in records:
        by_method[record["method"]][record["result"]] += 1
    total = sum(by_method.values(), collections.Counter())
    lines = [f"{'':{NAMES}}" + "".join(f"{result:>8}" for result in RESULTS)]
    for name, counts in (*sorted(by_method.items()), ("all", total)):
        shown = name if len(name) <= NAMES else f"{name[: NAMES - 1]}…"
        lines.append(f"{shown:{NAMES}}" + "".join(f"{counts[result] or '-':>8}" for result in RESULTS))
    for result in RESULTS[1:]:
        reasons = collections.Counter(record["reason"] for record in records if record["result"] == result)
        lines += ["", f"{result}:"] if reasons else []
        for reason, count in reasons.most_common():
            lines += textwrap.wrap(reason, WIDTH, initial_indent=f"{count:5}  ", subsequent_indent=" " * 7)
    return lines


def part_of(text):
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError(f"{text}, must be I/N: for example 1/4")
    return int(match[1]), int(match[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", help="PyTorch's test_flex_attention.py")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a value that FILE assigns, such as S=64; may be repeated")
    parser.add_argument("--only", metavar="PART", default="", help="tests whose names have this part")
    parser.add_argument("--part", metavar="I/N", type=part_of, default=(1, 1), help="the I-th of N parts, for N processes at once")
    parser.add_argument("--blocks", action="store_true", help="pass the blocks of PyTorch's masks too, instead of fa2's masks")
    parser.add_argument("--json", action="store_true", help="print a record of each test, as JSON")
    given = parser.parse_args()
    if wrong := [x for x in given.set if "=" not in x]:
        parser.error(f"--set {wrong[0]}, must be NAME=VALUE: for example S=64")
    records = run(given.file, dict(x.split("=", 1) for x in given.set), given.only, given.blocks, given.part)
    print(json.dumps(records, indent=1) if given.json else "\n".join(table_of(records)))
    sys.exit(any(record["result"] == FAILED for record in records))


if __name__ == "__main__":
    main()
