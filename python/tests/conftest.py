"""Kernels compiled once for all tests; GPU tests skipped, with the reason, where there is none."""

from __future__ import annotations

import os
import tempfile

import pytest

os.environ.setdefault("FA2_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"fa2-python-tests-{os.getuid()}"))


def _missing_gpu() -> str:
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    return "" if torch.cuda.is_available() else "PyTorch sees no GPU"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _missing_gpu()
    for item in items:
        if reason and item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason=reason))
