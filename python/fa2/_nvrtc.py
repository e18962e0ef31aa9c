"""Finds the NVRTC that pip has installed: NVIDIA's wheels put it into the namespace package `nvidia`."""

from __future__ import annotations

import os
import sys

from . import _core

_FOLDERS = {"13": "cu13/lib", "12": "cuda_nvrtc/lib"}
_INSTALLED = ("site-packages", "dist-packages")


def _majors() -> list[str]:
    """Returns CUDA's major versions, PyTorch's own first, because the driver is new enough for it."""
    torch = sys.modules.get("torch")
    version = getattr(getattr(torch, "version", None), "cuda", None) or "13"
    return sorted(_FOLDERS, key=lambda major: (major != version.split(".")[0], -int(major)))


def _roots() -> list[str]:
    """Returns the folders into which pip installs, and fa2's own. The current directory is left out, although `python -m`
    puts it into sys.path, because others may have put a library there."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = [path for path in sys.path if os.path.isabs(path) and os.path.basename(os.path.normpath(path)) in _INSTALLED]
    return [root for root in dict.fromkeys((own, *installed)) if not _is_current(root)]


def _is_current(path: str) -> bool:
    try:
        return os.path.samefile(path, os.curdir)
    except OSError:  # one of the two no longer exists
        return False


def directories() -> list[str]:
    """Returns the existing folders, the best first."""
    places = [os.path.join(root, "nvidia", _FOLDERS[major]) for major in _majors() for root in _roots()]
    return [place for place in places if os.path.isdir(place)]


def install() -> None:
    """Tells the library where to look when it has to compile. FA2_NVRTC takes precedence."""
    _core.set_nvrtc_search(tuple(directories()))
