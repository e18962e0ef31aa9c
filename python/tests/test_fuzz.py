"""Random calls: rejected ones change nothing, and accepted ones write only their outputs. See fuzz_calls.py."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

CALLS = 2000


@pytest.mark.parametrize("first", range(0, CALLS, CALLS // 2))
def test_wild_calls_are_refused_or_stay_inside(first: int) -> None:
    program = pathlib.Path(__file__).with_name("fuzz_calls.py")
    arguments = [sys.executable, "-X", "faulthandler", str(program), str(first), str(CALLS // 2)]
    environment = {**os.environ, "FA2_DEVICE": "interpreter"}  # its memory is the host's
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment)
    *_, last = done.stdout.splitlines() or [""]
    assert done.returncode == 0, f"{last} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    counts = dict(part.split("=") for part in last.split())
    assert all(int(n) > CALLS // 40 for n in counts.values()), last
