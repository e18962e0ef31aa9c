"""scripts/flex_conformance.py sorts tests by what became of them."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("torch.nn.attention.flex_attention")
SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "flex_conformance.py"

#: Tests as PyTorch's are: results of a compiled function beside those of float64.
TESTS = '''
import unittest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

if True:
    DTYPE = torch.float32
S = 512


class TestFlexAttention(unittest.TestCase):
    def run_test(self, score_mod, dtype=DTYPE, length=S, factor=1, mask_mod=None):
        torch.manual_seed(0)
        q, k, v = (torch.randn(1, 2, length, 16, dtype=dtype) for _ in range(3))
        block_mask = None if mask_mod is None else create_block_mask(mask_mod, 1, 1, length, length, "cpu", BLOCK_SIZE=16)
        golden = flex_attention(*(x.double() for x in (q, k, v)), score_mod=score_mod, block_mask=block_mask)
        compiled = torch.compile(flex_attention)(q, k, v, score_mod=score_mod, block_mask=block_mask)
        self.assertLess((compiled - factor * golden).abs().max(), 1e-2)

    def test_bias_float16(self):
        self.run_test(lambda s, b, h, q, k: s + (q - k) * 0.1)

    def test_mask(self):
        self.run_test(None, mask_mod=lambda b, h, q, k: q >= k)

    def test_float32(self):
        self.run_test(None, torch.float32)

    def test_sum(self):
        self.run_test(lambda s, b, h, q, k: torch.ops.aten.sin(s) + torch.linalg.norm(s))

    def test_wrong(self):
        self.run_test(None, factor=2)

    @unittest.expectedFailure
    def test_expected(self):
        self.run_test(None, factor=2)

    def test_eager(self):
        self.assertEqual(flex_attention(*[torch.ones(1, 1, 4, 16)] * 3).sum(), 64)

    def helper(self):
        self.assertEqual(torch._dynamo.utils.counters["frames"]["ok"], 1)

    def test_counters(self):
        self.helper()
'''


def conformance(tmp_path: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "tests.py"
    path.write_text(TESTS)
    return subprocess.run([sys.executable, str(SCRIPT), str(path), *arguments], capture_output=True, text=True)


def test_results_and_reasons(tmp_path: Any) -> None:
    done = conformance(tmp_path, "--set", "S=40", "--set", "DTYPE=torch.float16", "--json")
    found = {record["test"]: (record["result"], record["calls"], record["reason"]) for record in json.loads(done.stdout)}
    assert done.returncode == 1, "a test failed"
    assert found["test_bias_float16"] == found["test_mask"] == ("passed", 1, "")
    assert found["test_float32"] == ("skipped", 0, "dtype = float32")
    assert found["test_sum"][:2] == ("raised", 1) and "must be one of single numbers" in found["test_sum"][2]
    assert found["test_wrong"][:2] == ("failed", 1) and "not less than" in found["test_wrong"][2]
    assert found["test_expected"][0] == "skipped" and found["test_expected"][2].startswith("expected failure")
    assert found["test_eager"][:2] == ("not fa2", 0)
    assert "test_counters" not in found, "it reads the compiler's counters"


def test_table(tmp_path: Any) -> None:
    done = conformance(tmp_path, "--set", "S=40", "--set", "DTYPE=torch.float16", "--only", "a", "--blocks")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith(("test", "all"))}
    assert rows == {name: ["1", "-", "-", "-", "-"] for name in ("test_bias_float16", "test_mask")} | {
        "test_float32": ["-", "-", "-", "1", "-"],
        "test_eager": ["-", "-", "-", "-", "1"],
        "all": ["2", "-", "-", "1", "1"],
    }
    assert "    1  dtype = float32" in lines


def test_arguments(tmp_path: Any) -> None:
    assert "python3 scripts/flex_conformance.py FILE" in conformance(tmp_path, "--help").stdout
    assert "T = a name that" in conformance(tmp_path, "--set", "T=1").stderr
    assert "must be NAME=VALUE" in conformance(tmp_path, "--set", "S").stderr
