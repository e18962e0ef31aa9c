"""With the package's hints, type checkers report wrong calls and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import fa2
import pytest

CALLS = Path(__file__).with_name("wrong_calls.py")


def test_mypy_reports_wrong_calls_by_line(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "--no-error-summary", "--hide-error-context"]
    package = Path(fa2.__file__).parents[1]
    where = {} if package.name == "site-packages" else {"MYPYPATH": str(package)}
    run = [*command, str(CALLS)]
    found = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **where}).stdout
    reported = {int(line) for line in re.findall(r"wrong_calls\.py:(\d+): error:", found)}
    lines = enumerate(CALLS.read_text().splitlines(), 1)
    assert reported == {number for number, line in lines if line.endswith("# wrong")}, found
