"""Head dims that are no multiple of 8."""

from __future__ import annotations

import sys
from typing import Any


def pad_head_dim(tensor: Any) -> Any:
    """The last dimension filled up with zeros to a multiple of 8; `tensor` itself if it is one.

    Attention of padded q, k and v is that of the originals, with zeros after their columns: pass
    softmax_scale=head_dim**-0.5 of the original head_dim and cut `out[..., :head_dim]`. Differentiable.
    """
    missing = -tensor.shape[-1] % 8
    if missing == 0:
        return tensor
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return torch.nn.functional.pad(tensor, (0, missing))
    import numpy

    return numpy.pad(tensor, [(0, 0)] * (tensor.ndim - 1) + [(0, missing)])
