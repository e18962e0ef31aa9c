"""Where pip has put NVRTC: NVIDIA's wheels install it into the namespace package `nvidia`."""

from __future__ import annotations

import os
import sys

from . import _core

_FOLDERS = {"13": "cu13/lib", "12": "cuda_nvrtc/lib"}


def _majors() -> list[str]:
    """PyTorch's CUDA comes first, if it is there: the driver is new enough for it."""
    torch = sys.modules.get("torch")
    version = getattr(getattr(torch, "version", None), "cuda", None) or "13"
    return sorted(_FOLDERS, key=lambda major: (major != version.split(".")[0], -int(major)))


def directories() -> list[str]:
    """Those that exist, the best first."""
    places = [os.path.join(path, "nvidia", _FOLDERS[major]) for major in _majors() for path in sys.path]
    return [place for place in places if os.path.isdir(place)]


def install() -> None:
    """Says so to the library, which looks there once it has to compile; FA2_NVRTC wins."""
    _core.set_nvrtc_search(tuple(directories()))
