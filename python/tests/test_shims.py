"""The distributions that carry flash_attn's names, from the source tree. They refuse to load next to the real ones."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")

SHIMS = pathlib.Path(__file__).parents[1] / "shims"


def run(code: str, *more: pathlib.Path) -> subprocess.CompletedProcess[str]:
    places = [SHIMS / "flash-attn", SHIMS / "flash-attn-3", *more, os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(x) for x in places if str(x))}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


def test_every_name_is_fa2s() -> None:
    found = run(
        "import flash_attn, flash_attn_interface as flash3, flash_attn.flash_attn_interface as private\n"
        "from flash_attn import bert_padding; from flash_attn.layers import rotary; import fa2.flash_attn_interface\n"
        "for module in (flash_attn, flash3, private, bert_padding, rotary):\n"
        "    assert module.__all__ and all(hasattr(module, name) for name in module.__all__)\n"
        "assert flash_attn.flash_attn_func is fa2.flash_attn_interface.flash_attn_func\n"
        "assert private._flash_attn_backward is fa2.flash_attn_interface._flash_attn_backward"
    )
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    "real, module", [("flash_attn_2_cuda", "flash_attn"), ("flash_attn_3", "flash_attn_interface")]
)
def test_beside_the_real_one_an_error_says_so(tmp_path: pathlib.Path, real: str, module: str) -> None:
    (tmp_path / f"{real}.py").touch()
    found = run(f"import {module}", tmp_path)
    assert found.returncode != 0 and "uninstall one of them" in found.stderr
