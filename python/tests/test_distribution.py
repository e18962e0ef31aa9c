"""The distribution on PyPI: its name, its description, its command."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text()
NAME = "fa2-attention"


def test_the_description_has_no_relative_link() -> None:
    (readme,) = re.findall(r'^readme = "(.*?)"', PYPROJECT, re.MULTILINE)
    text = (ROOT / readme).read_text()
    targets = re.findall(r"\]\(\s*([^)\s]+)", text) + re.findall(r"""(?:src|href)=["']([^"']+)""", text)
    targets += re.findall(r"^\s*\[[^\]]+\]:\s*(\S+)", text, re.MULTILINE)
    assert text.startswith("# fa2") and [x for x in targets if not x.startswith("https://")] == []


def test_no_text_installs_the_other_project_of_that_name() -> None:
    files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
    if files.returncode != 0:
        pytest.skip("this is no checkout: git lists no files")
    installs = re.compile(r"pip3?\s+(?:install|download)\b[^\n`]*?(?<![\w./-])fa2(?![\w-])")
    found = []
    for name in files.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and not path.is_symlink():
            text = path.read_bytes().decode(errors="replace")
            found += [f"{name}: {match.group()}" for match in installs.finditer(text)]
    assert found == []


def test_the_name_is_the_same_everywhere() -> None:
    assert re.findall(r'^name = "(.*)"', PYPROJECT, re.MULTILINE) == [NAME]
    wheels = (ROOT / "scripts" / "build_wheel.sh").read_text() + (ROOT / "scripts" / "test_python.sh").read_text()
    globs = re.findall(r"/(fa2[\w*-]*?)-\*[\w*\"$-]*\.whl", wheels) + re.findall(r"/(fa2[\w]*)-\*-cp310", wheels)
    assert globs and set(globs) == {NAME.replace("-", "_")}


def test_the_installed_distribution_has_the_command_and_the_plug_ins() -> None:
    try:
        found = importlib.metadata.distribution(NAME)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{NAME} is not installed: fa2 was imported from a folder")
    points = {(point.group, point.name): point.value for point in found.entry_points}
    assert points == {
        ("console_scripts", "fa2"): "fa2.__main__:main",
        ("vllm.general_plugins", "fa2"): "fa2.vllm:register",
        ("sglang.srt.plugins", "fa2"): "fa2.sglang:register",
    }
    assert set(found.metadata.get_all("Provides-Extra") or ()) == {"cu12", "cu13", "torch", "transformers", "test"}
