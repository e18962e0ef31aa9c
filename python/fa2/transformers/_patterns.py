"""Masks of any pattern and position biases: as captured tensors for kernels, or for gradients of them by PyTorch's operations."""

from __future__ import annotations

from typing import Any

import torch

from .._scores import ScoreText
from ._functions import FunctionMask
from ._lengths import Lengths, are_lengths

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


def pattern_of(
    q: torch.Tensor,
    k: torch.Tensor,
    mask: torch.Tensor | None,
    position_bias: torch.Tensor | None,
    numbers: dict[str, Any],
) -> torch.Tensor:
    """Returns numbers to add to scores, (batch, heads, seqlen_q, seqlen_k), or bool: which keys are visible.

    mask: a pattern, or lengths, which `numbers` complete.
    """
    if mask is None or are_lengths(mask):
        mask = _visible(q, k, None if mask is None else Lengths.of_mask(mask), numbers)
    elif mask.ndim == 2:
        mask = checked(mask) & _visible(q, k, None, numbers)
    mask = checked(mask)[..., : k.shape[1]]
    if position_bias is None:
        return mask
    bias = position_bias[..., : k.shape[1]].to(q.dtype)
    return bias.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else bias + mask


def _visible(
    q: torch.Tensor, k: torch.Tensor, lengths: Lengths | None, numbers: dict[str, Any]
) -> torch.Tensor:
    """Returns the keys that attention() would see: bool (1 or batch, 1, seqlen_q, seqlen_k)."""
    i = torch.arange(q.shape[1], device=q.device)[:, None]
    j = torch.arange(k.shape[1], device=q.device)[None]
    used_q, used_k, start = (torch.tensor(n, device=q.device) for n in (q.shape[1], k.shape[1], 0))
    if lengths is not None:
        used_k = lengths.used_k[:, None, None, None]
        if lengths.used_q is not None:
            used_q = lengths.used_q[:, None, None, None]
        if lengths.start is not None:
            start = lengths.start[:-1, None, None, None]
    visible = (i < used_q) & (j >= start) & (j < start + used_k)
    distance = i + start + used_k - used_q - j
    left, right = numbers.get("window_size", (-1, -1))
    if left >= 0:
        visible = visible & (distance <= left)
    if numbers["causal"] or right >= 0:
        visible = visible & (distance >= (0 if numbers["causal"] else -right))
    return visible if visible.ndim == 4 else visible[None, None]


def attend_pattern(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: torch.Tensor, numbers: dict[str, Any]
) -> torch.Tensor:
    """Computes by scaled_dot_product_attention, or with materialised scores if there are softcap or sinks."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) if group > 1 else x for x in (k, v))
    scale, dropout_p, sinks = (numbers[name] for name in ("softmax_scale", "dropout_p", "sinks"))
    if not numbers["softcap"] and sinks is None:
        if pattern.dtype != torch.bool:
            pattern = pattern.to(q.dtype)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, pattern, dropout_p, scale=scale)
        return out.transpose(1, 2)
    scores = (q.float() @ k.float().transpose(-1, -2)) * scale
    if numbers["softcap"]:
        scores = (scores / numbers["softcap"]).tanh() * numbers["softcap"]
    if pattern.dtype == torch.bool:
        scores = scores.masked_fill(~pattern, torch.finfo(scores.dtype).min)
    else:
        scores = scores + pattern
    if sinks is not None:
        column = sinks.float()[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, column), -1)
    weights = torch.nn.functional.dropout(scores.softmax(-1), dropout_p)[..., : k.shape[2]]
    return (weights.to(v.dtype) @ v).transpose(1, 2)
