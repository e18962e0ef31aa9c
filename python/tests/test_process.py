"""How fa2 behaves in its host process: Ctrl-C and subinterpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

START = """
import os, signal, sys, threading, numpy, fa2
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with it ignored
def ones(rows, heads=1):
    return numpy.ones((1, rows, heads, 64), numpy.float16)
def interrupt_in(seconds):
    threading.Timer(seconds, lambda: os.killpg(os.getpgrp(), signal.SIGINT)).start()  # the way a terminal does it
"""


def run(program: str, before: str = "", **variables: str) -> str:
    """Runs the program in its own session and returns what it prints. Kills it after 100 s; the interrupted work takes
    far longer."""
    command = [sys.executable, "-c", before + START + program]
    found = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **variables}, start_new_session=True, timeout=100
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_ctrl_c_ends_a_run_of_the_interpreter() -> None:
    program = """
large = ones(1 << 15, 8)
fa2.explain(large, large, large)  # compiles
interrupt_in(1)
try:
    fa2.attention(large, large, large)
except KeyboardInterrupt:
    print("interrupted", (fa2.attention(ones(16), ones(16), ones(16)) == 1).all())
"""
    assert run(program) == "interrupted True\n"


def test_ctrl_c_during_a_compilation_is_no_verdict_on_the_kernel(tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\nif mkdir {tmp_path}/first; then exec sleep 600; fi\nexec c++ "$@"\n')
    compiler.chmod(0o700)
    program = """
small = ones(16)
interrupt_in(1)
try:
    fa2.attention(small, small, small)
except KeyboardInterrupt:
    [kernel] = fa2.explain(small, small, small)["kernels"]
    print("interrupted", (fa2.attention(small, small, small) == 1).all(), "instead of" in kernel["config_reason"])
"""
    assert run(program, FA2_CXX=str(compiler), FA2_CACHE_DIR=str(tmp_path / "cache")) == "interrupted True False\n"


def test_a_handler_that_raises_nothing_interrupts_nothing() -> None:
    program = """
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
interrupt_in(0.2)
while not seen:
    fa2.attention(ones(256), ones(256), ones(256))
print("went on", (fa2.attention(ones(16), ones(16), ones(16)) == 1).all())
"""
    assert run(program) == "went on True\n"


def test_ctrl_c_ends_precompile_also_while_progress_is_told(tmp_path: Path) -> None:
    program = f"""
def tell(done, total):
    os.killpg(os.getpgrp(), signal.SIGINT)
    for _ in range(1000):
        pass  # the handler runs here if this is the main thread
    print("told", flush=True)
try:
    fa2.precompile(["interpreter"], head_dims=range(8, 257, 8), jobs=1, out={str(tmp_path)!r}, progress=tell)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(program, FA2_CXX="true").splitlines()[-1] == "interrupted"


@pytest.mark.parametrize("first", ["main", "sub"])
def test_a_subinterpreter_is_refused_and_harms_nothing(first: str) -> None:
    pytest.importorskip("_testcapi", reason="this Python has no _testcapi, which makes subinterpreters")
    elsewhere = """
from _testcapi import run_in_subinterp
assert run_in_subinterp("try: import fa2\\nexcept ImportError as error: print(error, flush=True)") == 0
"""
    here = """
q = ones(16)
try:
    fa2.attention(q, q, q[:, :7])
except fa2.InvalidRequest:
    print((fa2.attention(q, q, q) == 1).all())
"""
    lines = run(elsewhere + here) if first == "main" else run(here, before=elsewhere)
    refusal, computed = lines.splitlines()
    assert "cannot be imported in a subinterpreter" in refusal and computed == "True"


def test_an_extension_imported_again_raises_the_same_exceptions() -> None:
    program = """
del sys.modules["fa2._core"]
import importlib
print(importlib.import_module("fa2._core").InvalidRequest is fa2.InvalidRequest)
"""
    assert run(program) == "True\n"
