"""fa2's log in Python's logging. Each case runs in its own process, because logging is set up, and some messages are
logged, once per process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# A missing directory is only a warning; a missing compiler ends the call.
MAKE = """
import fa2
def make():
    try:
        fa2.precompile(["sm_80"], head_dims=[8], dtypes=["float16"], causal=[False], out=None)
    except fa2.CompileError:
        pass
"""
WARNING = 'FA2_CACHE_PATH = "/nowhere", must name directories and packs (.fa2pack) that are there; this one is not read'


def run(program: str, **variables: str) -> tuple[str, str]:
    """Returns what the program prints on stdout and on stderr."""
    environment = {key: value for key, value in os.environ.items() if key != "FA2_LOG"}
    environment.update({"FA2_CACHE_PATH": "/nowhere", "FA2_NVRTC": "/none.so", **variables})
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    assert found.returncode == 0, found.stderr
    return found.stdout, found.stderr


def test_warnings_are_on_stderr_while_logging_is_not_configured() -> None:
    out, err = run(MAKE + "make()")
    assert out == "" and err.count(f"fa2 WARNING: {WARNING}\n") == 1


CONFIGURED = """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(levelname)s|%(name)s|%(threadName)s|%(message)s")
"""


def test_a_configured_logger_gets_them() -> None:
    out, err = run(CONFIGURED + MAKE + "make()")
    assert f"WARNING|fa2|MainThread|{WARNING}\n" in out and err == ""


def test_threads_and_a_percent_sign() -> None:
    program = CONFIGURED + MAKE + "import threading; t = threading.Thread(target=make, name='worker'); t.start(); t.join()"
    out, err = run(program, FA2_CACHE_PATH="/100%s")
    assert "WARNING|fa2|worker|FA2_CACHE_PATH = \"/100%s\"," in out and err == ""


@pytest.mark.parametrize("level", ["ERROR", "CRITICAL"])
def test_the_loggers_level_decides(level: str) -> None:
    assert run(CONFIGURED + MAKE + f"logging.getLogger('fa2').setLevel('{level}'); make()") == ("", "")
    assert run(MAKE + f"import logging; logging.getLogger('fa2').setLevel('{level}'); make()") == ("", "")


PLAN = """
import numpy, fa2
ones = numpy.ones((1, 16, 1, 64), numpy.float16)
fa2.attention(ones, ones, ones)
"""


def test_a_plan_is_a_line_at_debug_level() -> None:
    pytest.importorskip("numpy")
    interpreter = {"FA2_DEVICE": "interpreter"}
    out, _ = run(CONFIGURED + "logging.getLogger('fa2').setLevel('DEBUG')\n" + PLAN, **interpreter)
    assert len([line for line in out.splitlines() if line.startswith("DEBUG|fa2|MainThread|plan of ")]) == 1
    assert "plan of" not in run(CONFIGURED + PLAN, **interpreter)[0]
    # FA2_LOG sets the level of a logger that has none, with or without handlers.
    assert "DEBUG|fa2|MainThread|plan of " in run(CONFIGURED + PLAN, FA2_LOG="debug", **interpreter)[0]
    assert "fa2 DEBUG: plan of " in run(PLAN, FA2_LOG="debug", **interpreter)[1]
    assert run(MAKE + "make()", FA2_LOG="off") == ("", "")


def test_an_exception_of_a_filter_stops_no_call() -> None:
    program = CONFIGURED + MAKE + "logging.getLogger('fa2').addFilter(lambda record: 1 / 0); make(); print('made')"
    out, err = run(program)
    assert out == "made\n" and "ZeroDivisionError" in err


def test_after_the_interpreters_exit_messages_go_to_stderr_again() -> None:
    out, err = run("import atexit; atexit.register(lambda: make())" + CONFIGURED + MAKE)
    assert out == "" and f"fa2 warning: {WARNING}\n" in err


# The threads end between the log's exit, which comes first because it was registered last, and the interpreter's: CPython 3.10 can crash
# when daemon threads of any kind come back to an interpreter that has ended.
THREADS = """
import atexit, threading, time
is_over = threading.Event()
def loop():
    while not is_over.is_set(): make()
threads = [threading.Thread(target=loop, daemon=True) for _ in range(4)]
def join():
    is_over.set()
    for thread in threads: thread.join()
    print("joined")
atexit.register(join)
"""


def test_threads_that_log_do_not_hold_up_the_exit() -> None:
    start = "for thread in threads: thread.start()\ntime.sleep(0.3)"
    out, _ = run(CONFIGURED + THREADS + MAKE + start, FA2_LOG="debug")
    assert out.endswith("joined\n")
