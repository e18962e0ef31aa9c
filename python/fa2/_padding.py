"""Padding for head dims that are not multiples of 8."""

from __future__ import annotations

from typing import Any, cast

from . import _core, _hooks, _mistakes
from ._types import Tensor


@_mistakes.explained
def pad_head_dim(tensor: Tensor) -> Tensor:
    """Returns the tensor with its last dimension filled up by zeros to a multiple of 8: itself if it is one.

    Attention of padded q, k and v is that of the originals, with zeros after their columns: pass
    softmax_scale=head_dim**-0.5 of the original head_dim and cut `out[..., :head_dim]`. Differentiable.
    """
    if tensor.ndim == 0:
        raise _core.InvalidRequest("tensor.shape = (), must have a last dimension: pass (..., head_dim)")
    missing = -tensor.shape[-1] % 8
    if missing == 0:
        return tensor
    padded: Any
    if (torch := _hooks.torch_of(tensor)) is not None:
        padded = torch.nn.functional.pad(tensor, (0, missing))
    else:
        import numpy

        padded = numpy.pad(cast(Any, tensor), [(0, 0)] * (tensor.ndim - 1) + [(0, missing)])
    return cast(Tensor, padded)
