"""python -m fa2, and NVRTC where pip has put it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest

import fa2
from fa2 import _nvrtc

NVRTC = fa2.machine()["nvrtc"]


def run(*arguments: str, **variables: str) -> str:
    """What it prints; the command's own message fails the test."""
    command = [sys.executable, "-m", "fa2", *arguments]
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize("verb", ["info", "doctor", "precompile", "bench"])
def test_help_has_an_example(verb: str) -> None:
    text = " ".join(run(verb, "--help").split())
    assert f"example: python -m fa2 {verb}" in text and "--json" in text


def test_doctor_computes_on_what_there_is() -> None:
    lines = dict(line.split(maxsplit=1) for line in run("doctor").splitlines())
    assert lines["version"] == fa2.__version__
    assert lines["self-test"].startswith("ok")


def test_json_is_what_the_table_shows() -> None:
    found = json.loads(run("info", "--json"))
    assert found["version"] == fa2.__version__ and found["python"] == sys.version.split()[0]
    assert set(found) >= {"driver", "gpus", "nvrtc", "cache", "torch", "numpy"}


def test_errors_are_a_line_and_an_exit_code() -> None:
    command = [sys.executable, "-m", "fa2", "precompile", "--arch", "sm_12", "--head-dim", "64"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 1
    assert found.stderr.startswith("fa2: ") and "sm_12" in found.stderr and "Traceback" not in found.stderr


def test_nvrtc_of_pip_is_found() -> None:
    spec = importlib.util.find_spec("nvidia")
    places = [] if spec is None else [os.path.join(x, "cu13", "lib") for x in spec.submodule_search_locations or ()]
    if not any(os.path.exists(os.path.join(place, "libnvrtc.so.13")) for place in places):
        pytest.skip("nvidia-cuda-nvrtc is not installed: pip install fa2[cu13]")
    assert _nvrtc.directories()[0] in places
    assert os.path.dirname(NVRTC["path"]) in places


@pytest.mark.skipif("error" in NVRTC, reason=f"there is no NVRTC: {NVRTC.get('error')}")
def test_kernels_made_ahead_are_found_and_not_made_again(tmp_path: Any) -> None:
    arguments = ("precompile", "--arch", "sm_80", "--head-dim", "8", "--dtype", "float16", "--json", "--out", str(tmp_path))
    made = json.loads(run(*arguments))
    assert {kernel["origin"] for kernel in made} == {"compiled"}
    again = json.loads(run(*arguments))
    assert {kernel["origin"] for kernel in again} == {"disk_cache"}
    assert [kernel["key"] for kernel in again] == [kernel["key"] for kernel in made]
    seen: list[tuple[int, int]] = []
    fa2.precompile(
        ["sm_80"], head_dims=[8], dtypes=["float16"], out=str(tmp_path), progress=lambda *numbers: seen.append(numbers)
    )
    assert seen == [(done, len(made)) for done in range(1, len(made) + 1)]
    table = run(*arguments[:-3], "--out", str(tmp_path))
    assert made[0]["key"][:8] in table and table.splitlines()[-1].startswith(f"{len(made)} kernels, ")
