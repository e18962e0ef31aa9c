"""The head dims that kernels compute, and padding for those that are not multiples of 8, or of 16 with 8-bit keys and values."""

from __future__ import annotations

from typing import Any, cast

from . import _core, _hooks, _mistakes
from ._types import Tensor

# The library's rules, as its errors state them: test_wide_heads.py compares both.
MOST_COLUMNS = 512  #: of heads whose keys and values have as many
MOST_WITH_GRADIENTS = 256  #: of keys and of values


def multiple_of(keys: Any) -> int:
    """Returns what head dims must be multiples of with these keys, a tensor or its dtype: 8, or 16 with 8-bit keys."""
    return 16 if keys.itemsize == 1 else 8


@_mistakes.explained
def pad_head_dim(tensor: Tensor, multiple: int = 8) -> Tensor:
    """Returns the tensor with its last dimension filled up by zeros to a multiple of `multiple`: itself if it is one.

    multiple: 8, or with 8-bit k and v 16, also for q. Attention of padded q, k and v is that of the originals, with
    zeros after their columns: pass softmax_scale=head_dim**-0.5 of the original head_dim and cut `out[..., :head_dim]`.
    Differentiable.
    """
    if tensor.ndim == 0:
        raise _core.InvalidRequest("tensor.shape = (), must have a last dimension: pass (..., head_dim)")
    if multiple < 1:
        raise _core.InvalidRequest(f"multiple = {multiple}, must be at least 1: pass 8, or 16 with 8-bit k and v")
    missing = -tensor.shape[-1] % multiple
    if missing == 0:
        return tensor
    padded: Any
    if (torch := _hooks.torch_of(tensor)) is not None:
        given: Any = tensor
        if given.itemsize == 1:  # PyTorch fills few tensors of 8-bit floats, and all of integers
            return cast(Tensor, torch.nn.functional.pad(given.view(torch.uint8), (0, missing)).view(given.dtype))
        padded = torch.nn.functional.pad(given, (0, missing))
    else:
        import numpy

        padded = numpy.pad(cast(Any, tensor), [(0, 0)] * (tensor.ndim - 1) + [(0, missing)])
    return cast(Tensor, padded)
