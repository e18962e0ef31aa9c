"""Masks that a function of transformers' describes: fa2's kernels evaluate it, and nobody makes the matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from .._core import InvalidRequest
from .._scores import ScoreText, score_text


class _NeedsElements(RuntimeError):
    """An operation reads elements that nobody has made."""


class FunctionMask(torch.Tensor):
    """A mask of bool (batch, 1, seqlen_q, seqlen_k) as the text of a function.

    Whoever computes with it, as models may, computes with the matrix, which the first operation makes.
    """

    text: ScoreText  #: returns whether the query sees the key
    _make: Callable[[], torch.Tensor]
    _made: torch.Tensor | None

    @staticmethod
    def __new__(
        cls, shape: tuple[int, ...], device: torch.device | str, text: ScoreText, make: Callable[[], torch.Tensor]
    ) -> FunctionMask:
        mask: FunctionMask = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bool, device=torch.device(device))
        mask.text, mask._make, mask._made = text, make, None
        return mask

    def matrix(self) -> torch.Tensor:
        if self._made is None:
            self._made = self._make()
        return self._made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)  # size(), to() the device where it is, and the like
        except _NeedsElements:
            return func(*tree_map_only(cls, cls.matrix, args), **tree_map_only(cls, cls.matrix, kwargs))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override, unused-ignore]
        raise _NeedsElements(f"{func} = of a mask that is a function, must be of its matrix(): call that")


def text_of(
    mask_function: Callable[..., Any],
    counts: torch.Tensor | None,
    q_offset: int | torch.Tensor,
    kv_offset: int | torch.Tensor,
) -> tuple[ScoreText | None, str]:
    """Returns the text of mask_function, and why there is none.

    counts: bool (batch, kv_length), which keys count; None: all. Offsets are what positions of query 0 and key 0 are. As
    tensors they are no part of the text, which stays the same from one chunk of a prompt to the next.
    """
    query_0, key_0 = (None if isinstance(x, int) and x == 0 else torch.as_tensor(x, dtype=torch.int32) for x in (q_offset, kv_offset))

    def visible(b: Any, h: Any, q: Any, k: Any) -> Any:
        shown = mask_function(b, h, _after(q, query_0), _after(k, key_0))
        return shown if counts is None else shown & counts[b, k]

    try:
        return score_text(mask_mod=visible), ""
    except InvalidRequest as error:
        return None, str(error)


def _after(position: Any, offset: Any) -> Any:
    return position if offset is None else (position + offset).clamp(min=0)
