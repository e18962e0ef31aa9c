"""Tensors of the tests of sharded tokens."""

from __future__ import annotations

from typing import Any

import torch


def random(*shape: int, dtype: Any = torch.bfloat16, seed: int = 0) -> Any:
    """Returns the same tensor in every process."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def worst(a: Any, b: Any) -> float:
    """Returns the largest absolute difference."""
    return float((a.detach().double() - b.detach().double()).abs().max())
