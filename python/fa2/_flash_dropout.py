"""Dropout in FlashAttention's terms: the state of the generator, and signed probabilities."""

from __future__ import annotations

import math
from typing import Any

import torch

from . import _core, _torch
from ._call import Options


def draw_state(q: torch.Tensor) -> torch.Tensor:
    """Draws seed and offset as fa2.attention() does: int64 (2) on q's device."""
    seed, offset, state = _torch.draw_dropout(q)
    return torch.tensor([seed, offset], dtype=torch.int64, device=q.device) if state is None else state


def keep_mask(q: torch.Tensor, shape: tuple[int, ...], p: float, state: torch.Tensor) -> torch.Tensor:
    """Returns which probabilities dropout keeps with this state: bool (batch, heads, seqlen_q, seqlen_k)."""
    mask = torch.empty(shape, dtype=torch.uint8, device=q.device)
    if mask.numel():
        _core.dropout_mask(mask, state, p, 0, 0)
    return mask.bool()


def _exponentials(q: Any, k: Any, slopes: Any, options: Options) -> torch.Tensor:
    """Returns exp(score - row maximum) for one sequence, (heads, rows, keys); 0 for hidden keys."""
    assert options.softmax_scale is not None
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = torch.einsum("ihd,jhd->hij", q.float(), k.float()) * options.softmax_scale
    if options.softcap:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    rows, keys = scores.shape[1:]
    distance = torch.arange(keys, device=q.device) - torch.arange(rows, device=q.device)[:, None] - (keys - rows)
    if slopes is not None:
        scores = scores - slopes[:, None, None] * distance.abs()
    right = 0 if options.mask else options.window_right
    if right >= 0:
        scores = scores.masked_fill(distance > right, -math.inf)
    if options.window_left >= 0:
        scores = scores.masked_fill(distance < -options.window_left, -math.inf)
    return (scores - scores.amax(-1, keepdim=True).clamp(min=-1e30)).exp()


def _sequences(x: Any, cu_seqlens: Any, seqused: Any) -> list[Any]:
    """Returns the rows of each sequence, (rows, heads, head_dim). Waits for the device if they are packed."""
    if cu_seqlens is None:
        return list(x.unbind(0))
    ends = cu_seqlens.tolist()
    used = [b - a for a, b in zip(ends, ends[1:])] if seqused is None else seqused.tolist()
    return [x[a : a + n] for a, n in zip(ends, used)]


@torch.no_grad()
def signed_exponentials(q: torch.Tensor, k: torch.Tensor, options: Options) -> torch.Tensor:
    """Returns FlashAttention's S_dmask, computed by PyTorch's operators in memory of seqlen_q * seqlen_k, for tests.

    The shape is (batch, heads, seqlen_q, seqlen_k) with both lengths rounded up to 128, the dtype q's. Values are
    exp(score - row maximum), negative if dropped; 0 for hidden keys and rows without a query. Scores are scaled, capped
    and biased by ALiBi. All keys form one block, as _get_block_size_n() says.
    """
    if options.page_table is not None:
        raise NotImplementedError("block_table = given, must be None with return_attn_probs and dropout_p")
    queries = _sequences(q, options.cu_seqlens_q, options.seqused_q)
    keys = _sequences(k, options.cu_seqlens_k, options.seqused_k)
    longest_q, longest_k = options.max_seqlen_q or q.shape[1], options.max_seqlen_k or k.shape[1]
    shape = (len(queries), q.shape[-2], longest_q, longest_k)
    keep = keep_mask(q, shape, options.dropout_p, options.dropout_state)
    found = q.new_zeros(*shape[:2], -(-longest_q // 128) * 128, -(-longest_k // 128) * 128)
    for b, (one_q, one_k) in enumerate(zip(queries, keys)):
        rows, columns = one_q.shape[0], one_k.shape[0]
        if rows and columns:
            slopes = options.alibi_slopes
            slopes = slopes[b] if slopes is not None and slopes.dim() == 2 else slopes
            kept = torch.where(keep[b, :, :rows, :columns], 1.0, -1.0)
            found[b, :, :rows, :columns] = (kept * _exponentials(one_q, one_k, slopes, options)).to(q.dtype)
    return found
