"""Masks of any pattern and position biases, as tensors that kernels capture."""

from __future__ import annotations

from typing import Any

import torch

from .._scores import ScoreText
from ._functions import FunctionMask


def texts_of(
    q: torch.Tensor,
    k: torch.Tensor,
    mask: torch.Tensor | None,
    position_bias: torch.Tensor | None,
    start: torch.Tensor | None,
) -> dict[str, ScoreText]:
    """Returns attention()'s `bias` and `mask_mod` for a mask with a pattern and a position bias. Copies neither.

    start: (batch + 1), the key of the tensors that attention() counts as each sequence's key 0; None: key 0.
    """
    sizes = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    terms, captures, texts = [], {}, {}
    if isinstance(mask, FunctionMask):
        texts["mask_mod"] = mask.text
    elif mask is not None:
        element, mask = _element("attention_mask", checked(mask), sizes)
        visible = element
        if mask.dtype != torch.bool:
            terms.append(element)
            captures["attention_mask"] = mask
            visible = f"{element} > {torch.finfo(mask.dtype).min!r}f"
        texts["mask_mod"] = ScoreText(f"return {visible};", {"attention_mask": mask})
    if position_bias is not None:
        if start is not None:
            captures["start"] = start
        element, captures["position_bias"] = _element("position_bias", position_bias, sizes, "at.key" if start is None else "at.key + start(at.batch)")
        terms.append(element)
    if terms:
        texts["bias"] = ScoreText(f"return {' + '.join(terms)};", captures)
    return texts


def _element(name: str, x: torch.Tensor, sizes: tuple[int, ...], key: str = "at.key") -> tuple[str, torch.Tensor]:
    """Returns the expression of an element of x, whose dimensions may be 1, and whose keys may be too many; and x as it indexes it.

    Where x has one element for all heads or sequences, the text must not read these: then kernels find blocks once for all.
    """
    kept = x if x.shape[-1] == 1 else x[..., : sizes[3]]
    if any(n not in (1, size) for n, size in zip(kept.shape, sizes)):
        raise ValueError(f"{name}.shape = {tuple(x.shape)}, must be {sizes}: (batch, heads, seqlen_q, seqlen_k), each of these or 1")
    is_shared = [n < size for n, size in zip(kept.shape, sizes)]
    places = (place for place, shared in zip(("at.batch", "at.head", "at.query", key), is_shared) if not shared)
    kept = kept[tuple(0 if shared else slice(None) for shared in is_shared)]
    return f"{name}({', '.join(places)})", kept.to(torch.float32 if x.dtype == torch.float64 else x.dtype)


def checked(mask: torch.Tensor) -> torch.Tensor:
    """Returns a mask that is no lengths with four dimensions."""
    if mask.ndim == 2:
        return mask[:, None, None].bool()
    if mask.ndim != 4 or not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise ValueError(
            f"attention_mask = {mask.dtype} {tuple(mask.shape)}, must be bool or numbers to add, (batch, heads, seqlen_q, "
            "seqlen_k), or (batch, seqlen_k): which keys count"
        )
    return mask
