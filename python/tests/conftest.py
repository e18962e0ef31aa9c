"""Keeps compiled kernels for all tests, and skips GPU tests with the reason if there is no GPU."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

os.environ.setdefault("FA2_TUNE", "stored")  # other values of FA2_TUNE measure, and measured configs may differ from run to run
os.environ.setdefault("FA2_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"fa2-python-tests-{os.getuid()}"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, default=60, help="problems that GPU tests of flash_attn's functions draw")
    parser.addoption("--part", type=int, default=1, metavar="N", help="one of N of the long tests, which the commit's hash chooses, and a reason for each other")
    parser.addoption("--seed", type=int, default=0, help="of that draw")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "drawn_case" in metafunc.fixturenames:
        from flash_cases import draw

        count, seed = metafunc.config.getoption("cases"), metafunc.config.getoption("seed")
        cases = [draw(number, seed) for number in range(count)] if not _missing_gpu() else [draw(0, seed)]
        metafunc.parametrize("drawn_case", cases, ids=[f"{number}-{case}" for number, case in enumerate(cases)])


def _missing_gpu() -> str:
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    return "" if torch.cuda.is_available() else "PyTorch sees no GPU"


def _chosen_part(parts: int) -> int:
    """Returns which of the parts of long tests the commit's hash chooses, as scripts/part.sh does."""
    command = ["git", "-C", os.path.dirname(__file__), "rev-parse", "--short=6", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(found.stdout or "0", 16) % parts


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    parts = config.getoption("part")
    chosen = _chosen_part(parts)
    for number, item in enumerate(item for item in items if item.get_closest_marker("long")):
        if number % parts != chosen:
            item.add_marker(pytest.mark.skip(reason=f"another part of {parts} of the long tests runs"))
    reason = _missing_gpu()
    for item in items:
        if reason and item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def pool() -> Iterator[Any]:
    """Ranks of gloo groups: RankPool."""
    from rank_pool import rank_pool

    with rank_pool() as made:
        yield made
