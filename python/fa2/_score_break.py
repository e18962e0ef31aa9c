"""Reads functions of scores outside of what torch.compile traces: a graph break. Imported while PyTorch compiles."""

from __future__ import annotations

from typing import Any

import torch

from . import _scores

read: Any
_REASON = "fa2 traces score_mod, mask_mod and bias itself: for one graph, pass what fa2.score_text() makes of each before"

try:
    read = torch.compiler.disable(_scores.read, reason=_REASON)  # type: ignore[no-untyped-call, unused-ignore]
except TypeError:  # PyTorch up to 2.6 takes no reason
    read = torch.compiler.disable(_scores.read)  # type: ignore[no-untyped-call, unused-ignore]
